//! `choir token`.

use crate::cli::{Data, ScopeName, Token, TokenCommand, TokenCreate};
use crate::{instance, output};
use choir_control::clock::Clock;
use choir_control::data::DataDir;
use choir_control::db::Scope;
use choir_control::token;
use std::process::ExitCode;

pub(crate) async fn token(arguments: Token) -> anyhow::Result<ExitCode> {
    match arguments.command {
        TokenCommand::Create(create) => create_token(create).await?,
        TokenCommand::SignIn(arguments) => sign_in(&arguments.data).await?,
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

async fn sign_in(data: &Data) -> anyhow::Result<()> {
    let url = instance::running(data)?;
    let db = token::open(&DataDir::open(&data.path()?)?)?;
    let made = token::sign_in(&db, &Clock::system()).await?;
    Ok(output::line(format!("{url}/?token={}", made.expose()))?)
}
