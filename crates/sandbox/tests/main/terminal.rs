//! Terminals: what is typed arrives, what is shown arrives, and the screen outlives its viewer.

use std::collections::BTreeMap;

use bytes::Bytes;
use choir_sandbox::path::RelativePath;
use choir_sandbox::protocol::{Command, EffectId, Ending, FaultCode, OpenTerminal, TerminalSize};
use choir_sandbox::runtime::{Terminal, TerminalError, TerminalEvent, TerminalOutput};

use crate::support::{Sandbox, associate};

const SIZE: TerminalSize = TerminalSize { columns: 80, rows: 24 };

fn program(arguments: &[&str]) -> OpenTerminal {
    OpenTerminal {
        effect: EffectId::parse("terminal").expect("a good id"),
        command: Command::Arguments(arguments.iter().map(|argument| (*argument).to_owned()).collect()),
        directory: RelativePath::root(),
        environment: BTreeMap::from([("PS1".to_owned(), "> ".to_owned())]),
        size: SIZE,
    }
}

async fn open(sandbox: &Sandbox, arguments: &[&str]) -> (Terminal, TerminalOutput) {
    sandbox.guest.open_terminal(program(arguments)).await.expect("is sent")
}

async fn shell(sandbox: &Sandbox) -> (Terminal, TerminalOutput) {
    open(sandbox, &["/bin/sh"]).await
}

async fn type_in(terminal: &Terminal, text: &str) {
    terminal.write(Bytes::from(text.to_owned())).await.expect("is taken");
}

/// Reads until the output holds `text`.
async fn until(output: &mut TerminalOutput, text: &str) -> String {
    let mut seen = String::new();
    while !seen.contains(text) {
        match output.next().await.expect("goes on") {
            TerminalEvent::Output(bytes) | TerminalEvent::Screen(bytes) => seen += &String::from_utf8_lossy(&bytes),
            TerminalEvent::Exit(exit) => panic!("ended with {exit:?} after {seen:?}"),
        }
    }
    seen
}

async fn to_the_end(output: &mut TerminalOutput) -> (Vec<u8>, Ending) {
    let mut seen = Vec::new();
    loop {
        match output.next().await.expect("goes on") {
            TerminalEvent::Output(bytes) | TerminalEvent::Screen(bytes) => seen.extend_from_slice(&bytes),
            TerminalEvent::Exit(exit) => return (seen, exit.ending),
        }
    }
}

#[tokio::test]
async fn a_shell_reads_answers_and_ends() {
    let sandbox = associate().await;
    let (terminal, mut output) = shell(&sandbox).await;
    type_in(&terminal, "echo $((40 + 2)) $TERM; tty; exit 3\n").await;
    let (seen, ending) = to_the_end(&mut output).await;
    let seen = String::from_utf8_lossy(&seen);
    assert!(seen.contains("42 xterm-256color\r\n/dev/pts/"), "{seen}");
    assert_eq!(ending, Ending::Code(3));
}

#[tokio::test]
async fn a_terminal_has_the_size_it_is_given() {
    let sandbox = associate().await;
    let (terminal, mut output) = shell(&sandbox).await;
    type_in(&terminal, "stty size\n").await;
    until(&mut output, "24 80\r\n").await;
    terminal.resize(TerminalSize { columns: 132, rows: 50 }).await.expect("resized");
    type_in(&terminal, "stty size\n").await;
    until(&mut output, "50 132\r\n").await;
}

#[tokio::test]
async fn control_c_interrupts_a_flood() {
    let sandbox = associate().await;
    let (terminal, mut output) = shell(&sandbox).await;
    type_in(&terminal, "yes flooded\n").await;
    until(&mut output, "flooded\r\nflooded").await;
    type_in(&terminal, "\u{3}").await;
    type_in(&terminal, "echo still $((1 + 1))\n").await;
    until(&mut output, "still 2").await;
}

#[tokio::test]
async fn every_byte_arrives() {
    let sandbox = associate().await;
    let (_terminal, mut output) = open(&sandbox, &["/bin/sh", "-c", "stty raw; seq 1 200000"]).await;
    let (seen, ending) = to_the_end(&mut output).await;
    let expected: String = (1..=200_000).map(|number| format!("{number}\n")).collect();
    assert!(seen == expected.as_bytes(), "{} bytes of {}", seen.len(), expected.len());
    assert_eq!(ending, Ending::Code(0));
}

#[tokio::test]
async fn the_screen_outlives_its_viewer() {
    let sandbox = associate().await;
    let (terminal, mut output) = shell(&sandbox).await;
    terminal.detach().await.expect("detached");
    type_in(&terminal, "clear; printf '\\033[31mred\\033[0m'; seq 1 100000 >/dev/tty; echo; echo end > seen\n").await;
    // It goes on although nobody looks: far more than a window was shown.
    while !sandbox.host("seen").exists() {
        sandbox.guest.health().await.expect("answers");
    }
    terminal.attach().await.expect("attached");
    let painted = loop {
        match output.next().await.expect("goes on") {
            TerminalEvent::Screen(bytes) => break bytes,
            TerminalEvent::Output(_) => {}
            TerminalEvent::Exit(exit) => panic!("{exit:?}"),
        }
    };
    let painted = String::from_utf8_lossy(&painted);
    assert!(painted.contains("100000"), "{painted:?}");
    type_in(&terminal, "echo back $((2 + 2))\n").await;
    until(&mut output, "back 4").await;
}

#[tokio::test]
async fn a_viewer_that_sleeps_stops_only_its_terminal() {
    let sandbox = associate().await;
    let (_terminal, mut output) =
        open(&sandbox, &["/bin/sh", "-c", "stty raw; head -c 3000000 /dev/zero; echo > done"]).await;
    // Commands are served while the terminal waits for its viewer.
    assert_eq!(sandbox.stdout("seq 1 50000 | tail -1").await, "50000\n");
    assert!(!sandbox.host("done").exists());
    let (seen, _) = to_the_end(&mut output).await;
    assert_eq!(seen.len(), 3_000_000);
    assert!(sandbox.host("done").exists());
}

#[tokio::test]
async fn closing_ends_what_ignores_the_hang_up() {
    let sandbox = associate().await;
    let (terminal, mut output) = shell(&sandbox).await;
    type_in(&terminal, "trap '' HUP TERM INT; (trap '' HUP; setsid sleep 1000 &) ; echo rea''dy\n").await;
    until(&mut output, "ready").await;
    terminal.close().await.expect("closed");
    assert_eq!(to_the_end(&mut output).await.1, Ending::Killed);
    assert_eq!(sandbox.guest.health().await.expect("answers").processes, 1);
}

#[tokio::test]
async fn a_program_that_is_not_there_opens_no_terminal() {
    let sandbox = associate().await;
    let (_terminal, mut output) = open(&sandbox, &["/no/such/program"]).await;
    let refused = output.next().await;
    assert!(matches!(refused, Err(TerminalError::NotOpened(fault)) if fault.code == FaultCode::NotFound));
}

/// Answers to questions of a program would be typed into whatever reads next. Only a viewer may answer.
#[tokio::test]
async fn nobody_types_into_a_terminal_but_its_viewer() {
    let sandbox = associate().await;
    // Where the cursor is, what it is, its title, its clipboard, its settings, its colours, and text to be repeated.
    let asks = r"\033[6n\033[c\033[>c\033[5n\033[21t\033]52;c;?\007\033]2;rm -rf\007\033[20t\033P$qm\033\\\033]10;?\007\033[2i\005";
    let text = format!("stty raw -echo; printf '{asks}asked'; dd bs=1 count=1 2>/dev/null | od -An -tx1; printf ended");
    let (terminal, mut output) = open(&sandbox, &["/bin/sh", "-c", &text]).await;
    until(&mut output, "asked").await;
    // Painting draws whatever was not drawn yet.
    terminal.attach().await.expect("is shown");
    until(&mut output, "asked").await;
    type_in(&terminal, "k").await;
    let seen = until(&mut output, "ended").await;
    assert!(seen.contains("6b"), "the first that it reads is what was typed: {seen:?}");
}
