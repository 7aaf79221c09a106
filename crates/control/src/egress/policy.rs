//! What a task may reach: its wish, clamped to what the person allowed.

use choir_proto::egress::{GIT, Host, REGISTRIES};
use choir_proto::task::Egress;
use choir_proto::{Hash, TaskId};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;

/// What a task gets that wishes for nothing in particular.
const DEFAULT: [&str; 2] = [GIT, REGISTRIES];

/// Where packages come from. They are read from; a token to publish with is not in any sandbox.
const REGISTRY_HOSTS: [&str; 9] = [
    "crates.io",
    "index.crates.io",
    "static.crates.io",
    "registry.npmjs.org",
    "registry.yarnpkg.com",
    "pypi.org",
    "files.pythonhosted.org",
    "proxy.golang.org",
    "sum.golang.org",
];
const HTTPS: u16 = 443;

/// What the person lets be reached, and which of it may be near.
#[derive(Debug, Clone, Default)]
pub struct Ceiling {
    /// Profiles and hosts.
    pub(crate) entries: Vec<String>,
    near: Vec<String>,
}

impl Ceiling {
    /// Of what the settings name and what was approved in the inbox. The question was put in words that an agent chose: a name
    /// that was approved may lead anywhere, also later, and has to lead to the public; an address is what it says.
    pub fn new(settings: Vec<String>, approved: impl IntoIterator<Item = String>) -> Self {
        let mut ceiling = Self { near: settings.clone(), entries: settings };
        for entry in approved {
            if Host::parse_with_port(&entry).is_ok_and(|(host, _)| matches!(host, Host::Address(_))) {
                ceiling.near.push(entry.clone());
            }
            ceiling.entries.push(entry);
        }
        ceiling
    }

    /// Whether this very host may be reached.
    pub(super) fn names(&self, host: &Host, port: u16) -> bool {
        self.entries.iter().any(|entry| names_host(entry, host, port))
    }

    /// Whether it may then be near.
    pub(super) fn may_be_near(&self, host: &Host, port: u16) -> bool {
        self.near.iter().any(|entry| names_host(entry, host, port))
    }

    pub(super) fn holds(&self, profile: &str) -> bool {
        self.entries.iter().any(|entry| entry == profile)
    }
}

/// What one task may reach. Nothing by default: an empty policy is no network, never all of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    rules: Vec<Rule>,
    git: bool,
}

/// One thing that may be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rule {
    /// As it stands in events.
    pub(super) name: String,
    host: Host,
    port: u16,
    /// Whether it may lead to an address that is not public.
    pub(super) near: bool,
}

impl Policy {
    /// Whether there is nothing to reach at all.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty() && !self.git
    }

    /// Whether repositories may be fetched through the broker.
    pub(super) fn has_git(&self) -> bool {
        self.git
    }

    /// What may be reached, by name.
    pub(super) fn names(&self) -> String {
        let git = self.git.then_some(GIT);
        let names: BTreeSet<&str> = self.rules.iter().map(|rule| rule.name.as_str()).chain(git).collect();
        names.into_iter().collect::<Vec<_>>().join(", ")
    }

    /// The rule that allows a connection.
    pub(super) fn rule(&self, host: &Host, port: u16) -> Option<&Rule> {
        self.rules.iter().find(|rule| rule.host == *host && rule.port == port)
    }

    /// Whether a port of this host may be reached; an address of the sixth version needs no brackets.
    pub(super) fn names_host(&self, name: &str) -> bool {
        let host = name.parse().map_or_else(|_| Host::Name(name.to_owned()), Host::Address);
        self.rules.iter().any(|rule| rule.host == host)
    }

    fn add(&mut self, wish: &str, ceiling: &Ceiling) -> Result<(), String> {
        let within = ceiling.holds(wish);
        match wish {
            GIT if within => self.git = true,
            REGISTRIES if within => self.rules.extend(registry_rules()),
            GIT | REGISTRIES => return Err(wish.to_owned()),
            _ => self.rules.push(host_rule(wish, ceiling).ok_or_else(|| wish.to_owned())?),
        }
        Ok(())
    }
}

/// Whether an entry of a ceiling is this very host.
pub(super) fn names_host(entry: &str, host: &Host, port: u16) -> bool {
    Host::parse_with_port(entry).is_ok_and(|named| named == (host.clone(), port))
}

/// What an approval of an entry is bound to: who may reach what.
pub(crate) fn hash_of(task: Option<TaskId>, entry: &str) -> Hash {
    let task = task.map(|task| *task.as_bytes()).unwrap_or_default();
    let parts: [&[u8]; 3] = [b"choir.egress.1\0", &task, entry.as_bytes()];
    Hash(Sha256::digest(parts.concat()).into())
}

/// Clamps a wish to the ceiling. What lies above is answered separately: it is refused and recorded.
pub fn clamp(wish: Option<&Egress>, ceiling: &Ceiling) -> (Policy, Vec<String>) {
    let default: Vec<String> = DEFAULT.iter().filter(|name| ceiling.holds(name)).map(ToString::to_string).collect();
    let wishes = wish.map_or(default, |wish| wish.allow.clone());
    let mut policy = Policy::default();
    let refused = wishes.iter().filter_map(|wish| policy.add(wish, ceiling).err()).collect();
    (policy, refused)
}

/// A host that the ceiling names, or that a profile within the ceiling holds.
fn host_rule(wish: &str, ceiling: &Ceiling) -> Option<Rule> {
    let (host, port) = Host::parse_with_port(wish).ok()?;
    if ceiling.names(&host, port) {
        let near = ceiling.may_be_near(&host, port);
        return Some(Rule { name: wish.to_owned(), host, port, near });
    }
    let in_profile = ceiling.holds(REGISTRIES);
    registry_rules().filter(|_| in_profile).find(|rule| rule.host == host && rule.port == port)
}

fn registry_rules() -> impl Iterator<Item = Rule> {
    REGISTRY_HOSTS.iter().map(|host| Rule {
        name: REGISTRIES.to_owned(),
        host: Host::Name((*host).to_owned()),
        port: HTTPS,
        near: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(allow: &[&str]) -> Egress {
        Egress { allow: allow.iter().map(ToString::to_string).collect() }
    }

    fn ceiling(entries: &[&str]) -> Ceiling {
        Ceiling::new(entries.iter().map(ToString::to_string).collect(), [])
    }

    fn reaches(policy: &Policy, target: &str) -> bool {
        let (host, port) = Host::parse_with_port(target).unwrap();
        policy.rule(&host, port).is_some()
    }

    #[test]
    fn nothing_wished_is_the_default_and_an_empty_wish_is_no_network() {
        let (policy, refused) = clamp(None, &ceiling(&["git", "registries"]));
        assert!(policy.has_git() && reaches(&policy, "index.crates.io:443") && refused.is_empty());
        assert!(!reaches(&policy, "index.crates.io:80") && !reaches(&policy, "evil.crates.io:443"));
        assert!(clamp(Some(&wish(&[])), &ceiling(&["git", "registries"])).0.is_empty());
        assert!(clamp(None, &ceiling(&[])).0.is_empty());
    }

    #[test]
    fn a_wish_above_the_ceiling_is_refused_by_name() {
        let (policy, refused) = clamp(
            Some(&wish(&["registries", "example.org:443", "*", "0.0.0.0/0", "pypi.org:443"])),
            &ceiling(&["git"]),
        );
        assert!(policy.is_empty());
        assert_eq!(refused, ["registries", "example.org:443", "*", "0.0.0.0/0", "pypi.org:443"]);
        let (policy, refused) = clamp(Some(&wish(&["example.org:443"])), &ceiling(&["example.org:443"]));
        assert!(reaches(&policy, "example.org:443") && !reaches(&policy, "example.org:80") && refused.is_empty());
    }

    #[test]
    fn a_part_of_a_profile_may_be_wished_for() {
        let (policy, refused) = clamp(Some(&wish(&["pypi.org:443"])), &ceiling(&["registries"]));
        assert!(reaches(&policy, "pypi.org:443") && !reaches(&policy, "crates.io:443") && refused.is_empty());
    }

    #[test]
    fn an_approved_name_may_be_reached_but_only_in_public() {
        let entries = ["named.example:80", "asked.example:80", "10.1.2.3:80"];
        let approved = entries[1..].iter().map(ToString::to_string);
        let (policy, refused) = clamp(Some(&wish(&entries)), &Ceiling::new(vec![entries[0].to_owned()], approved));
        let near = |target: &str| {
            let (host, port) = Host::parse_with_port(target).unwrap();
            policy.rule(&host, port).unwrap().near
        };
        assert!(refused.is_empty());
        assert_eq!(entries.map(near), [true, false, true], "an address is what it says");
    }
}
