//! A program to run: how it is shown, how its output is kept, and how its end is judged.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::{BufRead, BufReader, PipeReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// Lines kept of a call's output. Enough for any compiler's complaint, and a flood cannot eat the memory.
const LINES_MAX: usize = 4_000;
/// Bytes kept of one line.
const LINE_BYTES_MAX: usize = 4_096;
/// Lines that may wait between the reader and the keeper; a fuller queue slows the program down.
const QUEUE_LINES: usize = 1_024;
/// How often a person is told that a long call still runs, and what it said last.
const HEARTBEAT: Duration = Duration::from_secs(30);
/// A program that has ended may leave its last output in the pipe for this long.
const DRAIN: Duration = Duration::from_secs(2);

/// One program with its arguments, environment and directory. `Display` is the line a person can paste.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    program: OsString,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    directory: Option<PathBuf>,
    closing: fn(&str) -> bool,
}

/// What a successful call said.
#[derive(Debug, Default)]
pub(crate) struct Output {
    /// The last lines, joined.
    pub(crate) text: String,
    /// The lines that the call's `closing` filter chose, from the whole output.
    pub(crate) closing: Vec<String>,
}

/// What happens while a call runs.
enum Moment {
    Line(String),
    Beat,
    Ended(std::io::Result<ExitStatus>),
}

impl Call {
    /// A program found on the path.
    pub(crate) fn new(program: impl AsRef<OsStr>) -> Self {
        Self {
            program: program.as_ref().to_owned(),
            arguments: Vec::new(),
            environment: Vec::new(),
            directory: None,
            closing: |_| false,
        }
    }

    /// Appends one argument.
    pub(crate) fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    /// Appends arguments.
    pub(crate) fn args<A: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.arguments.extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        self
    }

    /// Sets one environment variable.
    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name.into(), value.as_ref().to_owned()));
        self
    }

    /// Sets the working directory.
    pub(crate) fn dir(mut self, directory: &Path) -> Self {
        self.directory = Some(directory.to_owned());
        self
    }

    /// Chooses the lines worth showing although the call succeeded.
    pub(crate) fn closing(mut self, filter: fn(&str) -> bool) -> Self {
        self.closing = filter;
        self
    }

    /// The call as the standard library wants it, for `exec` and for programs that speak to the person directly.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).envs(self.environment.iter().map(|(name, value)| (name, value)));
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        command
    }

    /// Runs with the person's own terminal and judges the end.
    pub(crate) fn inherit(&self) -> Result<()> {
        let status = self.command().status().with_context(|| self.not_started())?;
        if !status.success() {
            bail!("{self}: {}", ended(status));
        }
        Ok(())
    }

    /// Runs quietly and returns what it said; a failure carries the output in its message.
    pub(crate) fn read(&self) -> Result<Output> {
        let (output, status) = self.observe(|_| ())?;
        if !status.success() {
            bail!("{self}: {}\n{}", ended(status), output.text);
        }
        Ok(output)
    }

    /// Runs quietly and returns its standard output exactly, for programs that answer in a format.
    pub(crate) fn exact(&self) -> Result<String> {
        let output = self.command().stdin(Stdio::null()).output().with_context(|| self.not_started())?;
        if !output.status.success() {
            bail!("{self}: {}\n{}", ended(output.status), String::from_utf8_lossy(&output.stderr));
        }
        String::from_utf8(output.stdout).with_context(|| format!("{self}: its output is not UTF-8"))
    }

    /// Runs quietly, telling `beat` the latest line now and then, and returns its end.
    pub(crate) fn observe(&self, mut beat: impl FnMut(&str)) -> Result<(Output, ExitStatus)> {
        let (reader, writer) = std::io::pipe()?;
        let mut command = self.command();
        command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
        let child = command.spawn().with_context(|| self.not_started())?;
        // The command holds our ends of the pipe; the reader sees the end only when they are closed too.
        drop(command);
        let mut tail = VecDeque::new();
        let mut closing = Vec::new();
        let status = follow(reader, child, HEARTBEAT, |moment| match moment {
            Moment::Line(line) => {
                if (self.closing)(&line) {
                    closing.push(line.clone());
                }
                if tail.len() == LINES_MAX {
                    tail.pop_front();
                }
                tail.push_back(line);
            }
            _ => beat(tail.iter().rfind(|line| !line.trim().is_empty()).map_or("", String::as_str)),
        })
        .with_context(|| format!("{self}"))?;
        Ok((Output { text: Vec::from(tail).join("\n"), closing }, status))
    }

    fn not_started(&self) -> String {
        format!("could not start {}", self.program.to_string_lossy())
    }
}

impl fmt::Display for Call {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in &self.environment {
            write!(formatter, "{}={} ", name.to_string_lossy(), quoted(value))?;
        }
        formatter.write_str(&quoted(&self.program))?;
        self.arguments.iter().try_for_each(|argument| write!(formatter, " {}", quoted(argument)))
    }
}

/// How a status reads in a report.
pub(crate) fn ended(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => "ended for an unknown reason".to_owned(),
    }
}

/// Reports lines until the program ended and its output is drained.
///
/// The two threads need no join: one ends with the program, the other with the last holder of the pipe.
fn follow(
    reader: PipeReader,
    mut child: Child,
    rhythm: Duration,
    mut report: impl FnMut(Moment),
) -> Result<ExitStatus> {
    let (sender, moments) = mpsc::sync_channel(QUEUE_LINES);
    let ending = sender.clone();
    thread::spawn(move || ending.send(Moment::Ended(child.wait())).ok());
    thread::spawn(move || send_lines(reader, &sender));
    let mut beat_at = Instant::now() + rhythm;
    loop {
        match moments.recv_timeout(beat_at.saturating_duration_since(Instant::now())) {
            Ok(Moment::Ended(status)) => return drain(&moments, status?, report),
            Ok(moment) => report(moment),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => bail!("its end was never reported"),
        }
        // Looked at after lines too: a chatty program must not keep the person waiting for a sign.
        if Instant::now() >= beat_at {
            report(Moment::Beat);
            beat_at = Instant::now() + rhythm;
        }
    }
}

/// After the program's end its pipe closes at once, unless something that it started still holds it: a leak.
fn drain(moments: &Receiver<Moment>, status: ExitStatus, mut report: impl FnMut(Moment)) -> Result<ExitStatus> {
    loop {
        match moments.recv_timeout(DRAIN) {
            Ok(moment) => report(moment),
            Err(RecvTimeoutError::Disconnected) => return Ok(status),
            Err(RecvTimeoutError::Timeout) => bail!("{}, but it left a process running", ended(status)),
        }
    }
}

fn send_lines(reader: PipeReader, sender: &SyncSender<Moment>) {
    let mut reader = BufReader::new(reader);
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        match reader.read_until(b'\n', &mut bytes) {
            // A broken pipe ends the output; the exit status judges the call.
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        bytes.truncate(LINE_BYTES_MAX);
        let line = String::from_utf8_lossy(&bytes).trim_end_matches(['\r', '\n']).to_owned();
        if sender.send(Moment::Line(line)).is_err() {
            return;
        }
    }
}

fn quoted(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./=:,@+%".contains(&byte);
    if !word.is_empty() && word.bytes().all(plain) {
        word.into_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> Call {
        Call::new("sh").args(["-c", script])
    }

    #[test]
    fn a_call_reads_as_a_line_to_paste() {
        let call = Call::new("cargo").args(["test", "it's"]).env("A", "b c");
        assert_eq!(call.to_string(), r"A='b c' cargo test 'it'\''s'");
    }

    #[test]
    fn output_keeps_both_streams_in_order_and_the_closing_lines() {
        let call = sh("echo one; echo two >&2; echo total 3").closing(|line| line.starts_with("total"));
        let output = call.read().unwrap();
        assert_eq!(output.text, "one\ntwo\ntotal 3");
        assert_eq!(output.closing, ["total 3"]);
    }

    #[test]
    fn a_failure_tells_code_and_output() {
        let error = sh("echo reason; exit 3").read().unwrap_err().to_string();
        assert!(error.contains("exit code 3") && error.contains("reason"), "{error}");
        let error = sh("kill -9 $$").read().unwrap_err().to_string();
        assert!(error.contains("killed by signal 9"), "{error}");
    }

    #[test]
    fn an_exact_answer_is_not_cut() {
        let long = "x".repeat(LINE_BYTES_MAX + 1);
        assert_eq!(Call::new("printf").args(["%s", &long]).exact().unwrap(), long);
        let error = sh("echo reason >&2; exit 3").exact().unwrap_err().to_string();
        assert!(error.contains("exit code 3") && error.contains("reason"), "{error}");
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let error = Call::new("no-such-program").read().unwrap_err().to_string();
        assert!(error.contains("could not start no-such-program"), "{error}");
    }

    #[test]
    fn a_long_call_gives_signs_of_life() {
        let (reader, writer) = std::io::pipe().unwrap();
        let mut child = sh("cat").command().stdin(Stdio::piped()).stdout(writer).spawn().unwrap();
        // It ends with its input, which is held until the first sign.
        let mut input = child.stdin.take();
        follow(reader, child, Duration::ZERO, |moment| {
            if let Moment::Beat = moment {
                input = None;
            }
        })
        .unwrap();
        assert!(input.is_none());
    }

    #[test]
    fn a_process_left_behind_is_a_failure() {
        let error = sh("sleep 20 & exit 0").read().unwrap_err();
        assert!(format!("{error:#}").contains("left a process running"), "{error:#}");
    }
}
