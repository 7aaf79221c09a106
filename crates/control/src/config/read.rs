//! Reading the file, and saying what is wrong with it: the key, the line, and how to mend it.

use super::{BrokerEndpoint, Config, McpServer, Provider, ProviderKind, RuntimeMode};
use crate::inbox::ELSEWHERE;
use choir_core::tool::specs;
use choir_llm::price::{PRICE_MAX, Price};
use choir_proto::Role;
use choir_proto::egress;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use toml::de::DeTable;

/// A configuration file of this size is not one.
const BYTES_MAX: usize = 1 << 20;

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be read.
    #[error("cannot read the configuration `{path}`")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is not what it should be.
    #[error("`{path}` line {line}: {message}")]
    Parse {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// What is wrong, naming the key.
        message: String,
    },
    /// A value that this version cannot honour.
    #[error("`{path}`: `{key}` {message}")]
    Value {
        /// The file.
        path: PathBuf,
        /// The dotted key.
        key: String,
        /// What is wrong with it.
        message: String,
    },
}

/// Reads a file. A missing one is an error only if somebody named it.
pub fn load(path: &Path, named: bool) -> Result<Config, Error> {
    match std::fs::read_to_string(path) {
        Ok(text) => parse(path, &text),
        // A data directory that is none is told by whoever opens it.
        Err(source) if matches!(source.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) && !named => {
            Ok(Config::default())
        }
        Err(source) => Err(Error::Read { path: path.to_owned(), source }),
    }
}

fn parse(path: &Path, text: &str) -> Result<Config, Error> {
    let wrong = |line, message: String| Error::Parse { path: path.to_owned(), line, message };
    if text.len() > BYTES_MAX {
        return Err(wrong(1, format!("the file is longer than {BYTES_MAX} bytes")));
    }
    let at = |error: &toml::de::Error| {
        let start = error.span().map_or(0, |span| span.start);
        text[..start.min(text.len())].matches('\n').count() + 1
    };
    let parsed = toml::Deserializer::parse(text).map_err(|error| wrong(at(&error), error.message().to_owned()))?;
    let mut config: Config = serde_path_to_error::deserialize(parsed).map_err(|error| {
        let (key, error) = (error.path().to_string(), error.inner());
        wrong(at(error), format!("`{key}`: {}", error.message()))
    })?;
    check(&config).map_err(|(key, message)| Error::Value { path: path.to_owned(), key, message })?;
    config.provider_order = provider_order(text);
    Ok(config)
}

/// Providers as the file has them from top to bottom: a map forgets that.
fn provider_order(text: &str) -> Vec<String> {
    let document = DeTable::parse(text).map(toml::Spanned::into_inner).unwrap_or_default();
    let Some(providers) = document.get("providers").and_then(|value| value.get_ref().as_table()) else {
        return Vec::new();
    };
    let mut named: Vec<_> = providers.keys().map(|name| (name.span().start, name.get_ref().to_string())).collect();
    named.sort_unstable();
    named.into_iter().map(|(_, name)| name).collect()
}

type Wrong = (String, String);

fn check(config: &Config) -> Result<(), Wrong> {
    if config.runtime.mode != RuntimeMode::Process {
        return Err(("runtime.mode".into(), "can only be \"process\" so far".into()));
    }
    for (name, provider) in &config.providers {
        if !is_provider_name(name) {
            return Err((format!("providers.{name}"), format!("is no name: {PROVIDER_NAME}")));
        }
        check_provider(provider).map_err(|(key, message)| (format!("providers.{name}.{key}"), message))?;
    }
    for (name, endpoint) in &config.broker {
        check_endpoint(name, endpoint).map_err(|(key, message)| (format!("broker.{name}{key}"), message))?;
    }
    for (name, server) in &config.mcp {
        check_server(name, server).map_err(|(key, message)| (format!("mcp.{name}{key}"), message))?;
    }
    if let Some(name) = config.tools.0.keys().find(|name| !names_a_tool(name)) {
        return Err((
            format!("tools.{name}"),
            "names no tool: a policy that holds for nothing protects nothing".into(),
        ));
    }
    let roles = config.models.roles.iter().map(|(role, model)| (format!("models.roles.{}", role.name()), model));
    let default = ("models.default".to_owned(), &config.models.default);
    let fallback = config.models.fallback.iter().map(|model| ("models.fallback".to_owned(), model));
    for (key, model) in roles.chain([default]).chain(fallback) {
        check_model(config, model).map_err(|message| (key, message))?;
    }
    if let Some(wrong) = config.egress.ceiling.iter().find(|entry| !egress::is_entry(entry)) {
        return Err(("egress.ceiling".into(), format!("holds `{wrong}`: {}", egress::ENTRY)));
    }
    for engine in &config.search.engines {
        check_url(Some(&engine.url)).map_err(|(_, message)| ("search.engines.url".into(), message))?;
    }
    let later = [
        ("storage.blobs_url", &config.storage.blobs_url),
        ("nats.url", &config.nats.url),
        ("search.qdrant_url", &config.search.qdrant_url),
        ("git.remote_template", &config.git.remote_template),
        ("tee.attestation_server", &config.tee.attestation_server),
        ("tee.key_server", &config.tee.key_server),
    ];
    match later.into_iter().find(|(_, value)| !value.is_empty()) {
        Some((key, _)) => Err((key.into(), "must stay empty: this version cannot use it yet".into())),
        None => Ok(()),
    }
}

/// Whether a name, or a beginning of names that ends in `*`, is one of ours or may be one of a server's.
fn names_a_tool(name: &str) -> bool {
    let ours = || Role::ALL.into_iter().flat_map(specs).map(|tool| tool.name.as_str());
    match name.strip_suffix('*') {
        Some(start) => {
            start.starts_with(ELSEWHERE) || ELSEWHERE.starts_with(start) || ours().any(|tool| tool.starts_with(start))
        }
        None => name.starts_with(ELSEWHERE) || ours().any(|tool| tool == name),
    }
}

/// How a provider may be called.
pub(crate) const PROVIDER_NAME: &str = "use up to 64 lower-case letters, digits, `-` and `_`";
const NAME_BYTES_MAX: usize = 64;

/// Whether a provider may be called so: the name stands before the slash of `PROVIDER/MODEL` and in a path.
pub(crate) fn is_provider_name(name: &str) -> bool {
    let good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_');
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(good)
}

fn check_provider(provider: &Provider) -> Result<(), Wrong> {
    if provider.usd_per_million.is_some_and(|said| Price::read(said).is_none()) {
        return Err(("usd_per_million".into(), format!("must hold prices from 0 to {PRICE_MAX}")));
    }
    let none = [
        ("requests_per_minute", provider.requests_per_minute == Some(0)),
        ("tokens_per_minute", provider.tokens_per_minute == Some(0)),
    ];
    if let Some((key, _)) = none.into_iter().find(|(_, is_none)| *is_none) {
        return Err((key.into(), "must be at least 1; leave it out for no limit".into()));
    }
    let is_limited = provider.requests_per_minute.is_some() || provider.tokens_per_minute.is_some();
    if provider.kind == ProviderKind::Scripted && is_limited {
        return Err(("kind".into(), "\"scripted\" asks nobody, so that there is nothing to limit in a minute".into()));
    }
    match (provider.kind, &provider.script) {
        (ProviderKind::Scripted, None) => Err(("script".into(), "must name a scenario file".into())),
        (ProviderKind::Scripted, Some(_)) => Ok(()),
        (_, Some(_)) => Err(("script".into(), "is for kind \"scripted\" alone".into())),
        (ProviderKind::Bedrock, None) if !cfg!(feature = "bedrock") => {
            Err(("kind".into(), "\"bedrock\" is not in this build; build with `--features bedrock`".into()))
        }
        _ => check_url(provider.base_url.as_deref()),
    }
}

/// Longest name of a server: together with its tool's it must fit what providers take for a name.
const SERVER_BYTES_MAX: usize = 24;
/// The longest that one call may take, in seconds.
const SERVER_TIMEOUT_S_MAX: u64 = 3600;

fn check_server(name: &str, server: &McpServer) -> Result<(), Wrong> {
    let wrong = |key: &str, message: String| Err((key.to_owned(), message));
    if !is_provider_name(name) || name.len() > SERVER_BYTES_MAX || name.contains("__") || name.ends_with('_') {
        let rule = format!("is no name: use up to {SERVER_BYTES_MAX} lower-case letters, digits, `-` and single `_`");
        return wrong("", rule);
    }
    if server.timeout_s.is_some_and(|seconds| !(1..=SERVER_TIMEOUT_S_MAX).contains(&seconds)) {
        return wrong(".timeout_s", format!("must be from 1 to {SERVER_TIMEOUT_S_MAX}"));
    }
    let roles = server.roles.as_deref().unwrap_or_default();
    if roles.contains(&Role::Conductor) {
        return wrong(".roles", "names the conductor, which acts through others alone".to_owned());
    }
    if server.command.is_some() && roles.iter().any(|role| *role != Role::Terminal) {
        return wrong(".roles", "may name a terminal alone: nobody else has a sandbox for a `command`".to_owned());
    }
    match (&server.command, &server.url) {
        (Some(_), Some(_)) | (None, None) => wrong("", "must have either `command` or `url`".to_owned()),
        (Some(command), None) if command.is_empty() => wrong(".command", "is empty".to_owned()),
        (Some(_), None) if server.token_env.is_some() => {
            wrong(".token_env", "is for a `url` alone: no secret enters a sandbox".to_owned())
        }
        (Some(_), None) => Ok(()),
        (None, Some(_)) if !server.args.is_empty() => wrong(".args", "is for a `command` alone".to_owned()),
        (None, Some(_)) if !server.env.is_empty() => wrong(".env", "is for a `command` alone".to_owned()),
        (None, url) => check_url(url.as_deref()).map_err(|(_, message)| (".url".to_owned(), message)),
    }
}

fn check_endpoint(name: &str, endpoint: &BrokerEndpoint) -> Result<(), Wrong> {
    let wrong = |key: &str, message: &str| Err((key.to_owned(), message.to_owned()));
    if !is_provider_name(name) {
        return wrong("", &format!("is no name: {PROVIDER_NAME}"));
    }
    check_url(Some(&endpoint.url)).map_err(|(_, message)| (".url".to_owned(), message))?;
    let Ok(url) = reqwest::Url::parse(&endpoint.url) else { return wrong(".url", "is not a URL") };
    let is_here = matches!(url.host_str(), Some("127.0.0.1" | "[::1]" | "localhost"));
    match &endpoint.user {
        _ if url.as_str() != endpoint.url || !url.path().ends_with('/') || url.query().is_some() => {
            wrong(".url", "must be spelled as https://HOST/ or https://HOST/PATH/, with a slash at its end")
        }
        _ if url.scheme() != "https" && !is_here => wrong(".url", "must begin with https://, except on this machine"),
        Some(user) if user.is_empty() || user.contains(':') || user.chars().any(char::is_control) => {
            wrong(".user", "is no name")
        }
        _ => Ok(()),
    }
}

fn check_url(url: Option<&str>) -> Result<(), Wrong> {
    let Some(url) = url else { return Ok(()) };
    let wrong = |message: &str| Err(("base_url".into(), message.to_owned()));
    match reqwest::Url::parse(url) {
        Ok(url) if !matches!(url.scheme(), "http" | "https") => wrong("must begin with http:// or https://"),
        Ok(url) if !url.username().is_empty() || url.password().is_some() => wrong("must not carry a password"),
        Ok(_) => Ok(()),
        Err(_) => wrong("is not a URL"),
    }
}

/// A model is `PROVIDER/MODEL`. The provider may also come from the desktop, so an unknown name is not refused here.
fn check_model(config: &Config, model: &str) -> Result<(), String> {
    if model.is_empty() {
        return Ok(());
    }
    match model.split_once('/') {
        Some((provider, name)) if !provider.is_empty() && !name.is_empty() => Ok(()),
        _ => {
            let known = config.providers.keys().cloned().collect::<Vec<_>>().join(", ");
            Err(format!("must be PROVIDER/MODEL, where PROVIDER is one of [{known}]"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        parse(Path::new("choir.toml"), text).unwrap_err().to_string()
    }

    #[test]
    fn a_policy_names_a_tool() {
        assert!(refused("[tools]\nbahs = \"ask\"").contains("tools.bahs"));
        assert!(refused("[tools]\n\"read_fi!*\" = \"ask\"").contains("names no tool"));
        let good = "[tools]\nbash = \"ask\"\n\"*\" = \"ask\"\n\"write_*\" = \"deny\"\n\"mcp__web__*\" = \"auto\"\nmcp__web__look = \"ask\"";
        assert!(parse(Path::new("choir.toml"), good).is_ok());
    }

    #[test]
    fn an_unknown_key_is_named_with_its_line() {
        let said = refused("[budget]\nusd_per_run = 1.0\n\n[egress]\nceilling = []\n");
        assert!(said.contains("line 5") && said.contains("ceilling"), "{said}");
    }

    #[test]
    fn a_place_of_repositories_is_spelled_in_one_way_and_not_spoken_to_in_the_clear() {
        let of = |name: &str, url: &str, more: &str| format!("[broker.{name}]\nurl = \"{url}\"\n{more}\n");
        let good = [of("acme", "https://git.example/acme/", "token_env = \"T\""), of("a", "http://127.0.0.1:8/", "")];
        good.iter().for_each(|text| drop(parse(Path::new("choir.toml"), text).unwrap()));
        for (text, said) in [
            (of("Acme", "https://git.example/", ""), "`broker.Acme`"),
            (of("a", "https://git.example", ""), "slash"),
            (of("a", "https://git.example/a/../b/", ""), "slash"),
            (of("a", "https://git.example/?a/", ""), "slash"),
            (of("a", "http://git.example/", ""), "https://"),
            (of("a", "https://me:it@git.example/", ""), "password"),
            (of("a", "https://git.example/", "user = \"a:b\""), "`broker.a.user`"),
            (of("a", "https://git.example/", "token = \"x\""), "token"),
        ] {
            assert!(refused(&text).contains(said), "{text}: {}", refused(&text));
        }
    }

    #[test]
    fn a_bad_value_is_named_with_its_line() {
        let said = refused("[budget]\nusd_per_run = \"many\"\n");
        assert!(said.contains("line 2"), "{said}");
        assert!(refused("[budget]\nusd_per_run = -1.0\n").contains("line 2"));
        assert!(refused("[runtime]\nmode = \"microvm\"\n").contains("runtime.mode"));
        assert!(refused("[models]\ndefault = \"gpt\"\n").contains("models.default"));
        assert!(refused("[providers.x]\nkind = \"scripted\"\n").contains("providers.x.script"));
        assert!(refused("[providers.x]\nkind = \"openai\"\nbase_url = \"ftp://a\"\n").contains("providers.x.base_url"));
        let wrong_type = refused("[providers.a]\nkind = \"openai\"\napi_key_env = 5\n");
        assert!(wrong_type.contains("line 3") && wrong_type.contains("`providers.a.api_key_env`"), "{wrong_type}");
        assert!(refused("[git]\nauto_commit_threshold = -1\n").contains("`git.auto_commit_threshold`"));
        assert!(refused("[egress]\nceiling = [\"git\", \"no port\"]\n").contains("egress.ceiling"));
        assert!(refused("[providers.\"a/b\"]\nkind = \"openai\"\n").contains("providers.a/b"));
        assert!(refused("[[search.engines]]\nkind = \"searxng\"\nurl = \"\"\n").contains("search.engines.url"));
        let dear = refused("[providers.x]\nkind = \"openai\"\nusd_per_million = { input = -1, output = 2 }\n");
        assert!(dear.contains("providers.x.usd_per_million"), "{dear}");
        let never = refused("[providers.x]\nkind = \"openai\"\nrequests_per_minute = 0\n");
        assert!(never.contains("providers.x.requests_per_minute"), "{never}");
        let played = refused("[providers.x]\nkind = \"scripted\"\nscript = \"a.json\"\ntokens_per_minute = 9\n");
        assert!(played.contains("providers.x.kind"), "{played}");
        assert!(refused("[mcp.x]\n").contains("`mcp.x` must have either"));
        assert!(refused("[mcp.x]\ncommand = \"a\"\nurl = \"http://a\"\n").contains("`mcp.x` must have either"));
        assert!(refused("[mcp.a__b]\ncommand = \"a\"\n").contains("`mcp.a__b` is no name"));
        assert!(refused("[mcp.x]\ncommand = \"a\"\ntoken_env = \"T\"\n").contains("mcp.x.token_env"));
        assert!(refused("[mcp.x]\nurl = \"file:///a\"\n").contains("mcp.x.url"));
        assert!(refused("[mcp.x]\nurl = \"http://a\"\nroles = [\"conductor\"]\n").contains("mcp.x.roles"));
        assert!(refused("[mcp.x]\ncommand = \"a\"\nroles = [\"writer\"]\n").contains("mcp.x.roles"));
        assert!(refused("[mcp.x]\nurl = \"http://a\"\nroles = [\"pianist\"]\n").contains("pianist"));
        assert!(refused("[mcp.x]\ncommand = \"a\"\ntimeout_s = 0\n").contains("mcp.x.timeout_s"));
        assert!(refused("[nats]\nurl = \"nats://x\"\n").contains("nats.url"));
    }

    #[test]
    fn providers_stand_in_the_order_of_the_file() {
        let text = "[providers.zebra]\nkind = \"openai\"\n[models]\ndefault = \"\"\n[providers]\nmiddle.kind = \"openai\"\n\
                    [providers.ant]\nkind = \"anthropic\"\n";
        let config = parse(Path::new("choir.toml"), text).unwrap();
        assert_eq!(config.provider_order, ["zebra", "middle", "ant"]);
        assert!(parse(Path::new("choir.toml"), "").unwrap().provider_order.is_empty());
    }

    #[test]
    fn the_documented_example_is_accepted() {
        let text = r#"
            [runtime]
            mode = "process"
            [models]
            default = ""
            [models.roles]
            writer = "anthropic/claude-sonnet-4-5"
            [providers.anthropic]
            kind = "anthropic"
            base_url = "https://api.anthropic.com"
            api_key_env = "ANTHROPIC_API_KEY"
            [budget]
            usd_per_run = 5.0
            [git]
            auto_commit_interval_s = 300
            auto_commit_threshold = 50
            remote_template = ""
            [egress]
            ceiling = ["git", "registries"]
            [storage]
            blobs_url = ""
            [nats]
            url = ""
            [search]
            engines = []
            qdrant_url = ""
            [tee]
            attestation_server = ""
            key_server = ""
        "#;
        let config = parse(Path::new("choir.toml"), text).unwrap();
        assert_eq!(config.models.roles.len(), 1);
        assert_eq!(parse(Path::new("choir.toml"), "").unwrap(), Config::default());
    }
}
