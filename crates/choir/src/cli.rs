//! What may be typed.

mod reach;

pub(crate) use reach::{Data, Reach};

use clap::builder::Resettable;
use clap::error::{ContextKind, ContextValue};
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::process::ExitCode;

/// An automatic computer: say what you want, get a living document with evidence under every claim.
#[derive(Debug, Parser)]
#[command(name = "choir", version, arg_required_else_help = true, propagate_version = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const UP_EXAMPLES: &str = "Examples:
  choir up
  choir up --listen 127.0.0.1:9000 --data ~/choir --config ~/choir.toml";
const RUN_EXAMPLES: &str = "Examples:
  choir run \"summarise notes.md\" --context notes.md
  choir run \"make the tests pass\" --budget-usd 2 --timeout 600 --json";
const EVENTS_EXAMPLES: &str = "Examples:
  choir events --after 120
  choir events --follow --json | jq -r .kind
  choir events --follow --to events.jsonl";
const TRACE_EXAMPLES: &str = "Examples:
  choir trace 01a1e211-f0ad-7b38-a58d-ccb88928412a
  choir trace 01a1e211-f0ad-7b38-a58d-ccb88928412a --json | jq '.spans[] | select(.status == \"failed\")'";
const ADD_EXAMPLES: &str = "Examples:
  choir add ~/src/site
  choir add https://example.org/tool.git --as tool";
const GET_EXAMPLES: &str = "Examples:
  choir get site ~/src/site
  choir get notes ./notes-from-choir";
const REPLAY_EXAMPLES: &str = "Examples:
  choir replay 01a1e211-f0ad-7b38-a58d-ccb88928412a
  choir replay 01a1e211-f0ad-7b38-a58d-ccb88928412a --save run.jsonl
  choir replay --from run.jsonl";
const UNDO_EXAMPLES: &str = "Examples:
  choir undo 01a1e211-f0ad-7b38-a58d-ccb88928412a
  choir undo 01a1e211-f0ad-7b38-a58d-ccb88928412a --json | jq -r '.conflicts[]'";
const TOUR_EXAMPLES: &str = "Examples:
  choir tour
  choir tour quotes";
const TOKEN_EXAMPLES: &str = "Examples:
  choir token create --name ci --scope run
  choir token list
  choir token revoke 0123456789abcdef
  choir token sign-in";
const VERIFY_EXAMPLES: &str = "Examples:
  choir verify
  choir verify --data /backup/choir --json";
const REBUILD_EXAMPLES: &str = "Examples:
  choir rebuild --json";
const ERASE_EXAMPLES: &str = "Examples:
  choir erase 01a1e211-f0ad-7b38-a58d-ccb88928412a";
const DOCTOR_EXAMPLES: &str = "Examples:
  choir doctor
  choir doctor --json | jq '.findings[] | select(.ok | not)'";
const COMPLETIONS_EXAMPLES: &str = "Examples:
  choir completions bash > ~/.local/share/bash-completion/completions/choir
  choir completions zsh > ~/.zfunc/_choir
  choir completions fish > ~/.config/fish/completions/choir.fish";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start ChoirOS on this machine and print the address that signs you in.
    ///
    /// SIGTERM or Ctrl-C stops it in order with exit status 0; a second one stops it at once. `CHOIR_LOG=debug` says
    /// more, `CHOIR_LOG_FORMAT=json` says it to machines.
    #[command(after_help = UP_EXAMPLES)]
    Up(Up),
    /// Start a run on a running instance, show its progress and print what comes of it.
    ///
    /// Exit status: 0 when the run completed or was verified, 4 when its time was over before that (`out_of_time`, or
    /// cancelled while it waited), 3 when it ended otherwise, 1 when it could not be started or followed.
    #[command(after_help = RUN_EXAMPLES)]
    Run(Run),
    /// Read the log.
    ///
    /// With `--follow` it goes on over restarts of the instance, without a gap and without a duplicate; exit status 1
    /// when the instance does not come back.
    #[command(after_help = EVENTS_EXAMPLES)]
    Events(Events),
    /// Show what a run did: agents, models and tools, with times and cost.
    #[command(after_help = TRACE_EXAMPLES)]
    Trace(Trace),
    /// Bring a folder or a git repository into the workspace, under projects/NAME.
    ///
    /// Of a repository comes what is committed, with its history. Its hooks, filters and settings are not used and its
    /// address is not kept.
    #[command(after_help = ADD_EXAMPLES)]
    Add(Add),
    /// Bring projects/NAME back: into a repository as branch choir/RUN, else into a new folder.
    ///
    /// The repository's working tree, index and present branch are not touched.
    #[command(after_help = GET_EXAMPLES)]
    Get(Get),
    /// Go through a run once more without asking any model, and name the first place where it would lead elsewhere.
    ///
    /// What models and tools answered is taken from the log. Exit status: 0 when everything is the same again, 3 when
    /// something is not, 1 when it could not be read.
    #[command(after_help = REPLAY_EXAMPLES)]
    Replay(Replay),
    /// Take back what a run or a task changed in the workspace, as one new change. Done again, it takes that back.
    ///
    /// What changed since is left as it is and named. Exit status: 0 when everything was taken back, 3 when something was
    /// left, 1 when nothing could be.
    #[command(after_help = UNDO_EXAMPLES)]
    Undo(Undo),
    /// See what ChoirOS does, without a model: recorded answers, real tools, in an instance that is gone afterwards.
    #[command(after_help = TOUR_EXAMPLES)]
    Tour(Tour),
    /// Make, list and end tokens for programs, and make addresses that sign people in.
    #[command(after_help = TOKEN_EXAMPLES)]
    Token(Token),
    /// Check every log from end to end: the chain, every payload, every blob, and control's signed heads.
    ///
    /// Exit status: 0 when everything holds, 1 when something does not.
    #[command(after_help = VERIFY_EXAMPLES)]
    Verify(Chore),
    /// Drop every view and fold it anew from the log. The instance must not run.
    #[command(after_help = REBUILD_EXAMPLES)]
    Rebuild(Chore),
    /// Replace what an event says by a tombstone, for good. The chain still verifies.
    #[command(after_help = ERASE_EXAMPLES)]
    Erase(Erase),
    /// Say what works on this machine, and how to mend what does not.
    ///
    /// Exit status: 0 when everything works, 1 when something does not.
    #[command(after_help = DOCTOR_EXAMPLES)]
    Doctor(Doctor),
    /// Print completions for a shell.
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions {
        /// Which shell.
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// The process of one computer.
    #[command(hide = true)]
    Computer(Computer),
    /// The inside of a sandbox.
    #[command(hide = true)]
    Guest(Guest),
    /// The text of a page, from standard input to standard output: for the inside of a sandbox, where pages are read.
    #[command(hide = true)]
    Page(Page),
}

/// What was typed, or how it is refused: in the shape that was asked for, and without names that are not for people.
pub(crate) fn parse() -> Result<Cli, ExitCode> {
    let parsed = command().try_get_matches().and_then(|matches| Cli::from_arg_matches(&matches));
    parsed.map_err(|mut error| {
        hide(&mut error);
        let wants_json = std::env::args_os().skip(1).take_while(|word| word != "--").any(|word| word == "--json");
        if wants_json && error.use_stderr() {
            let (message, hint) = told(&error);
            crate::output::tell(format_args!(
                "{}",
                serde_json::json!({"error": {"code": "usage", "message": message, "hint": hint}})
            ));
        } else if error.print().is_err() {
            // Nobody listens; the status still tells.
            return ExitCode::FAILURE;
        }
        ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(1))
    })
}

/// What may be typed. A variable that is set and empty is as good as unset: that is how a shell and a service file take one back.
fn command() -> clap::Command {
    hearing(Cli::command())
}

fn hearing(command: clap::Command) -> clap::Command {
    let is_empty =
        |argument: &clap::Arg| argument.get_env().and_then(std::env::var_os).is_some_and(|set| set.is_empty());
    let command = command.mut_args(|argument| match is_empty(&argument) {
        true => argument.env(Resettable::Reset),
        false => argument,
    });
    command.mut_subcommands(hearing)
}

/// Takes commands out of a suggestion that no help shows.
fn hide(error: &mut clap::Error) {
    let Some(ContextValue::Strings(suggested)) = error.remove(ContextKind::SuggestedSubcommand) else { return };
    let command = Cli::command();
    let is_shown = |name: &String| command.find_subcommand(name).is_some_and(|found| !found.is_hide_set());
    let shown: Vec<String> = suggested.into_iter().filter(is_shown).collect();
    if !shown.is_empty() {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(shown));
    }
}

/// The first sentence of an error, and how to mend it.
fn told(error: &clap::Error) -> (String, &'static str) {
    let text = error.to_string();
    let first = text.lines().next().unwrap_or_default();
    (first.strip_prefix("error: ").unwrap_or(first).to_owned(), "`choir --help` shows what may be typed.")
}

impl Command {
    /// Whether errors are for a program to read.
    pub(crate) fn wants_json(&self) -> bool {
        match self {
            Self::Run(arguments) => arguments.json,
            Self::Events(arguments) => arguments.json,
            Self::Trace(arguments) => arguments.json,
            Self::Replay(arguments) => arguments.json,
            Self::Undo(arguments) => arguments.json,
            Self::Add(arguments) => arguments.json,
            Self::Get(arguments) => arguments.json,
            Self::Doctor(arguments) => arguments.json,
            Self::Verify(arguments) | Self::Rebuild(arguments) => arguments.json,
            Self::Token(arguments) => match &arguments.command {
                TokenCommand::Create(create) => create.json,
                TokenCommand::SignIn(sign_in) => sign_in.json,
                TokenCommand::List(list) => list.json,
                TokenCommand::Revoke(revoke) => revoke.json,
            },
            Self::Erase(arguments) => arguments.json,
            Self::Up(_) | Self::Tour(_) | Self::Completions { .. } => false,
            Self::Computer(_) | Self::Guest(_) | Self::Page(_) => false,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Up {
    /// The address to listen on.
    #[arg(long, value_name = "ADDR", env = "CHOIR_LISTEN", default_value = "127.0.0.1:8080")]
    pub(crate) listen: String,
    #[command(flatten)]
    pub(crate) data: Data,
    /// The configuration [default: choir.toml in the data directory].
    #[arg(long, value_name = "FILE", env = "CHOIR_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// How sandboxes are made; overrides the configuration.
    #[arg(long, value_enum)]
    pub(crate) runtime: Option<RuntimeName>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum RuntimeName {
    /// Namespaces of this kernel.
    Process,
    /// A container runtime.
    Container,
    /// A virtual machine.
    Microvm,
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// What you want.
    pub(crate) prompt: String,
    /// Print JSON: the run's events, then the run.
    #[arg(long)]
    pub(crate) json: bool,
    /// Continue this document.
    #[arg(long, value_name = "ID")]
    pub(crate) document: Option<choir_proto::DocumentId>,
    /// A file of the workspace or a web page to work from; may be given several times.
    #[arg(long, value_name = "PATH|URL")]
    pub(crate) context: Vec<String>,
    /// Check the result by this command, or by those that the project brings; may be given several times.
    #[arg(long, value_name = "CMD", num_args = 0..=1, default_missing_value = "")]
    pub(crate) verify: Vec<String>,
    /// Show what would be delegated, and wait for a yes before anything is.
    #[arg(long)]
    pub(crate) plan_first: bool,
    /// Let this run, and no other, read the public web pages that a search finds.
    #[arg(long)]
    pub(crate) web: bool,
    /// The most that the run may cost.
    #[arg(long, value_name = "USD")]
    pub(crate) budget_usd: Option<f64>,
    /// The most that the run may take, in seconds.
    #[arg(long, value_name = "S")]
    pub(crate) timeout: Option<u64>,
    #[command(flatten)]
    pub(crate) reach: Reach,
}

#[derive(Debug, Args)]
pub(crate) struct Events {
    /// Begin after this position.
    #[arg(long, value_name = "SEQ", default_value_t = 0, allow_negative_numbers = true, value_parser = position)]
    pub(crate) after: u64,
    /// Go on as new events arrive.
    #[arg(long)]
    pub(crate) follow: bool,
    /// One JSON event on each line, and errors as JSON too.
    #[arg(long)]
    pub(crate) json: bool,
    /// Into a file, one JSON event on each line, going on after its last line whatever happened in between.
    #[arg(long, value_name = "FILE", conflicts_with = "after")]
    pub(crate) to: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) reach: Reach,
}

#[derive(Debug, Args)]
pub(crate) struct Trace {
    /// The run, as `choir run --json` shows it.
    pub(crate) run: choir_proto::RunId,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) reach: Reach,
}

#[derive(Debug, Args)]
pub(crate) struct Add {
    /// A folder, a local repository, or the address of one.
    #[arg(value_name = "PATH|GIT_URL")]
    pub(crate) from: String,
    /// Its name in the workspace [default: the last part of where it is from].
    #[arg(long = "as", value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) reach: Reach,
}

#[derive(Debug, Args)]
pub(crate) struct Get {
    /// Its name in the workspace.
    pub(crate) name: String,
    /// A repository, or a folder that is empty or does not exist yet.
    #[arg(value_name = "DIR")]
    pub(crate) into: PathBuf,
    /// The run that the branch is named after [default: the last one that changed the project].
    #[arg(long, value_name = "RUN")]
    pub(crate) run: Option<choir_proto::RunId>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) reach: Reach,
}

#[derive(Debug, Args)]
pub(crate) struct Replay {
    /// Which run.
    #[arg(required_unless_present = "from", conflicts_with = "from")]
    pub(crate) run: Option<String>,
    /// Keep what was replayed as a file of JSON lines, without anything that looks like a key.
    #[arg(long, value_name = "FILE")]
    pub(crate) save: Option<PathBuf>,
    /// Replay such a file; no instance has to run.
    #[arg(long, value_name = "FILE")]
    pub(crate) from: Option<PathBuf>,
    /// For programs.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) reach: Reach,
}

#[derive(Debug, Args)]
pub(crate) struct Undo {
    /// The run, or a task that was given without a run.
    #[arg(value_name = "RUN")]
    pub(crate) run: choir_proto::RunId,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) reach: Reach,
}

#[derive(Debug, Args)]
pub(crate) struct Tour {
    /// Which part [default: all].
    #[arg(value_enum)]
    pub(crate) name: Option<TourName>,
    #[command(flatten)]
    pub(crate) data: Data,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum TourName {
    /// Quotations that hold, and one that does not.
    Quotes,
    /// A worker that says it is done.
    Liar,
    /// A figure that knows when it is stale.
    Numbers,
}

#[derive(Debug, Args)]
pub(crate) struct Token {
    #[command(subcommand)]
    pub(crate) command: TokenCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Print a new API token, whether or not the instance is running. It is shown once.
    Create(TokenCreate),
    /// Print a fresh address that signs you in. It works once.
    SignIn(TokenSignIn),
    /// List the tokens that open something, without what makes them tokens.
    List(Tokens),
    /// End a token, and every connection that it opened.
    Revoke(TokenRevoke),
}

#[derive(Debug, Args)]
pub(crate) struct TokenCreate {
    /// What it is for.
    #[arg(long, value_name = "N", default_value = "token", value_parser = token_name)]
    pub(crate) name: String,
    /// What it may do.
    #[arg(long, value_enum, default_value_t = ScopeName::Run)]
    pub(crate) scope: ScopeName,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) data: Data,
}

#[derive(Debug, Args)]
pub(crate) struct Tokens {
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) data: Data,
}

#[derive(Debug, Args)]
pub(crate) struct TokenRevoke {
    /// Its id, as `choir token list` shows it.
    pub(crate) id: String,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) data: Data,
}

#[derive(Debug, Args)]
pub(crate) struct TokenSignIn {
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) data: Data,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum ScopeName {
    /// Look.
    Read,
    /// Start and steer work.
    Run,
    /// Settings, keys and approvals too.
    Admin,
}

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) data: Data,
    /// The configuration to check [default: choir.toml in the data directory].
    #[arg(long, value_name = "FILE", env = "CHOIR_CONFIG")]
    pub(crate) config: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Chore {
    #[command(flatten)]
    pub(crate) data: Data,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Erase {
    /// The event's id, as `choir events` shows it.
    pub(crate) event: choir_proto::EventId,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) reach: Reach,
}

#[derive(Debug, Args)]
pub(crate) struct Computer {
    /// Where it is kept.
    #[arg(long)]
    pub(crate) dir: PathBuf,
    /// The last position of its log that control has signed.
    #[arg(long, value_name = "SEQ:HASH", value_parser = signed_head)]
    pub(crate) signed: Option<choir_proto::wire::Head>,
    /// The user whom its directory was given to.
    #[arg(long, value_name = "UID")]
    pub(crate) user: Option<u32>,
}

/// The longest name of a token, in characters. It is for people to read in a list.
const TOKEN_NAME_CHARACTERS_MAX: usize = 100;

fn token_name(text: &str) -> Result<String, String> {
    match text.chars().count() {
        length if length > TOKEN_NAME_CHARACTERS_MAX => {
            Err(format!("it has {length} characters; at most {TOKEN_NAME_CHARACTERS_MAX} can be read in a list"))
        }
        _ => Ok(text.to_owned()),
    }
}

fn position(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| "positions count from 1, and 0 is before the first event".to_owned())
}

fn signed_head(text: &str) -> Result<choir_proto::wire::Head, String> {
    let head = text.split_once(':').and_then(|(seq, hash)| {
        Some(choir_proto::wire::Head { seq: choir_proto::Seq(seq.parse().ok()?), hash: hash.parse().ok()? })
    });
    head.ok_or_else(|| "a signed head is written as SEQ:HASH".to_owned())
}

#[derive(Debug, Args)]
pub(crate) struct Page {
    /// What it is: `html`, `pdf` or `text`.
    #[arg(value_parser = |name: &str| choir_core::page::Format::named(name).ok_or("it is `html`, `pdf` or `text`"))]
    pub(crate) format: choir_core::page::Format,
    /// In which encoding it was said to be.
    #[arg(long)]
    pub(crate) charset: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Guest {
    /// The descriptor of its stream.
    #[arg(long)]
    pub(crate) fd: i32,
    /// What it is for.
    #[arg(long, value_enum)]
    pub(crate) role: GuestRoleName,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum GuestRoleName {
    /// Runs terminals, beside commands.
    Associate,
    /// Runs commands, out of their reach.
    Shim,
    /// Keeps the workspace.
    Keeper,
}

pub(crate) fn completions(shell: clap_complete::Shell) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    let all = Cli::command();
    let shown = all.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    let mut shown = clap::Command::new("choir").version(env!("CARGO_PKG_VERSION")).subcommands(shown);
    clap_complete::generate(shell, &mut shown, "choir", &mut script);
    crate::output::bytes(&script)?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_are_well_formed() {
        Cli::command().debug_assert();
    }
}
