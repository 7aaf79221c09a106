//! How commands ended is said by whoever they cannot reach.

use choir_sandbox::protocol::{Ending, GuestRole};
use choir_sandbox::runtime::Layer;

use crate::support::{associate, shell, start};

async fn ending_with_liar(liar: GuestRole, command: &str) -> Ending {
    let sandbox = start(|spec| spec.sabotage.liar = Some(liar)).await;
    sandbox.run(command).await.finished.exit.ending
}

#[tokio::test]
async fn a_guest_that_its_command_has_taken_over_cannot_say_that_it_ended_well() {
    assert_eq!(ending_with_liar(GuestRole::Associate, "exit 7").await, Ending::Code(7));
    assert_eq!(ending_with_liar(GuestRole::Associate, "kill -9 $$").await, Ending::Signal(9));
    // The control: were the shim taken over, it would be believed, and this would notice.
    assert_eq!(ending_with_liar(GuestRole::Shim, "exit 7").await, Ending::Code(0));
}

#[tokio::test]
async fn commands_neither_see_nor_signal_whoever_says_how_they_ended() {
    let sandbox = associate().await;
    let seen = sandbox.stdout("cat /proc/[0-9]*/cmdline | tr '\\0' ' '").await;
    assert!(seen.contains("--role associate"), "the control: the guest is seen: {seen}");
    assert!(!seen.contains("--role shim"), "{seen}");
    let output = sandbox.run("setsid sh -c 'kill -9 -1'; kill -9 -1; exit 0").await;
    assert_eq!(output.finished.exit.ending, Ending::Signal(9));
    assert_eq!(sandbox.stdout("echo well").await, "well\n");
    assert!(sandbox.guest.layers().has(Layer::ProcessNamespace));
}

#[tokio::test]
async fn what_a_command_abandons_is_collected_and_ends_with_it() {
    let sandbox = associate().await;
    let mut exec = shell("(setsid sleep 1000 &) ; echo on; exec sleep 1000");
    exec.timeout_ms = 300;
    let output = sandbox.guest.exec(exec).await.expect("is sent").collect(100).await.expect("ends");
    assert_eq!(output.finished.exit.ending, Ending::TimedOut);
    assert_eq!(sandbox.guest.health().await.expect("answers").processes, 1);
}

#[tokio::test]
async fn an_associate_itself_runs_no_commands() {
    use choir_sandbox::protocol::Ask;
    let ask = Ask::Exec(shell("true"));
    assert!(ask.suits(GuestRole::Shim));
    assert!(!ask.suits(GuestRole::Associate) && !ask.suits(GuestRole::Keeper));
}
