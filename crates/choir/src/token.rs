//! `choir token`.

use crate::cli::{ScopeName, Token, TokenCommand, TokenCreate, TokenRevoke, TokenSignIn, Tokens};
use crate::instance::{self, Instance};
use crate::output;
use choir_control::clock::Clock;
use choir_control::data::DataDir;
use choir_control::db::{self, Scope};
use choir_control::token;
use std::process::ExitCode;

/// No token has this id.
#[derive(Debug, thiserror::Error)]
#[error("there is no token `{0}`")]
pub(crate) struct Unknown(String);

impl Unknown {
    pub(crate) const CODE: &str = "not_found";
    pub(crate) const HINT: &str = "`choir token list` shows all of them.";
}

pub(crate) async fn token(arguments: Token) -> anyhow::Result<ExitCode> {
    match arguments.command {
        TokenCommand::Create(create) => create_token(create).await?,
        TokenCommand::SignIn(arguments) => sign_in(&arguments).await?,
        TokenCommand::List(arguments) => list(&arguments)?,
        TokenCommand::Revoke(arguments) => return revoke(arguments).await,
    }
    Ok(ExitCode::SUCCESS)
}

async fn create_token(arguments: TokenCreate) -> anyhow::Result<()> {
    let TokenCreate { name, scope, json, data } = arguments;
    let scope = match scope {
        ScopeName::Read => Scope::Read,
        ScopeName::Run => Scope::Run,
        ScopeName::Admin => Scope::Admin,
    };
    let db = token::open(&DataDir::open(&data.path()?)?)?;
    let made = token::create(&db, &Clock::system(), name.clone(), scope, None).await?;
    if json {
        return output::json(&serde_json::json!({ "token": made.expose(), "name": name, "scope": scope.name() }));
    }
    Ok(output::line(made.expose())?)
}

async fn sign_in(arguments: &TokenSignIn) -> anyhow::Result<()> {
    let url = instance::address(&arguments.data).await?;
    let db = token::open(&DataDir::open(&arguments.data.path()?)?)?;
    let made = token::sign_in(&db, &Clock::system()).await?;
    let address = format!("{url}/?token={}", made.expose());
    match arguments.json {
        true => output::json(&serde_json::json!({ "url": address })),
        false => Ok(output::line(address)?),
    }
}

fn list(arguments: &Tokens) -> anyhow::Result<()> {
    let path = arguments.data.path()?;
    let data = DataDir::at(&path);
    data.require_ours()?;
    // Looking makes nothing: where there is no database there is no token.
    let tokens = match data.database().exists() {
        true => db::tokens(&path, Clock::system().now(), instance::look(&data)?.open)?,
        false => Vec::new(),
    };
    if arguments.json {
        let shown = tokens.iter().map(|token| {
            serde_json::json!({ "token_id": token.id, "name": token.name, "scope": token.scope.name(),
                "created_at": token.created, "expires_at": token.expires })
        });
        return output::json(&serde_json::json!({ "tokens": shown.collect::<Vec<_>>() }));
    }
    for token in tokens {
        let expires = token.expires.map(|at| format!("  until {at}")).unwrap_or_default();
        let (id, scope) = (&token.id, token.scope.name());
        output::line(format_args!("{id}  {scope:<5}  {}  {}{expires}", token.created, printable(&token.name)))?;
    }
    Ok(())
}

/// Through the instance if one runs, so that open connections end too; else in the database.
async fn revoke(arguments: TokenRevoke) -> anyhow::Result<ExitCode> {
    let TokenRevoke { id, json, data } = arguments;
    let path = data.path()?;
    if !DataDir::at(&path).database().exists() {
        return Err(Unknown(id).into());
    }
    let found = instance::find(&data).await?;
    let db = token::open(&DataDir::open(&path)?)?;
    if !db.tokens(Clock::system().now()).await?.iter().any(|token| token.id == id) {
        return Err(Unknown(id).into());
    }
    match found {
        Instance::Running(client) => client.delete(&format!("/api/tokens/{id}")).await?,
        Instance::Absent(_lock) => {
            db.remove_token(id.clone()).await?;
        }
    }
    match json {
        true => output::json(&serde_json::json!({ "token_id": id }))?,
        false => output::line(format!("revoked {id}"))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// A name that somebody chose must not steer the terminal.
fn printable(text: &str) -> String {
    text.chars().map(|character| if character.is_control() { ' ' } else { character }).collect()
}
