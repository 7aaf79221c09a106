//! What a project's own files tell of a check: the recipes of Makefiles, the scripts of packages, and what scripts take in.

use crate::checks::is_test;
use crate::data::Data;
use crate::discover::{fits, is_makefile, npm_script, project};
use crate::recipe::{Kind, Part, is_checking, is_helping, parts, programs};
use crate::says::Says;
use choir_proto::wire::TreeFile;
use serde_json::Value;
use std::collections::BTreeSet;

/// Deepest chain of targets that is followed.
const TARGETS_DEEP_MAX: u32 = 8;

/// npm's manifest.
pub(crate) const PACKAGE: &str = "package.json";

/// Managers of packages that run what a manifest says.
const MANAGERS: [&str; 4] = ["npm", "pnpm", "yarn", "bun"];

/// Programs that do nothing which could fail because of what is checked.
const IDLE: [&str; 9] = ["true", ":", "exit", "echo", "printf", "set", "sleep", "fi", "done"];

/// Programs that look at files, and run nothing of what they look at.
const LOOKING: [&str; 21] = [
    "grep", "egrep", "fgrep", "rg", "test", "[", "[[", "diff", "cmp", "cat", "head", "tail", "wc", "ls", "sort",
    "uniq", "cut", "tr", "stat", "jq", "false",
];

/// Scripts that run with a test, or with getting what it needs.
const WITH_TEST: [&str; 7] = ["pretest", "test", "posttest", "preinstall", "install", "postinstall", "prepare"];

/// Files that may hold tests and take others in.
pub const CODE: [&str; 14] = [
    "*.py", "*.js", "*.mjs", "*.cjs", "*.ts", "*.tsx", "*.rs", "*.rb", "*.go", "*.c", "*.h", "*.cc", "*.cpp", "*.java",
];

/// The commands of a check, and what the files that they name tell of it.
#[derive(Debug, Clone, Default)]
pub struct Told {
    /// Commands, and what they run in turn.
    pub(crate) commands: Vec<String>,
    /// Directories in which the commands run.
    homes: BTreeSet<String>,
    /// What else belongs to the check.
    more: Vec<Part>,
    rules: Vec<Rule>,
    /// Scripts of packages that run with a test.
    scripts: Vec<String>,
    /// Scripts for a shell, by their paths, with what they run.
    bodies: Vec<(String, Vec<String>)>,
    /// What tests read, and what the product does.
    pub(crate) data: Data,
}

#[derive(Debug, Clone, Default)]
struct Rule {
    home: String,
    targets: Vec<String>,
    needs: Vec<String>,
    recipe: Vec<String>,
}

impl Told {
    /// By the commands alone.
    pub fn of(commands: Vec<String>) -> Self {
        let mut homes = BTreeSet::new();
        for (called, rest) in programs(&commands) {
            let into = match called.as_str() {
                "cd" => rest.first(),
                "make" | "gmake" => rest.iter().skip_while(|word| *word != "-C").nth(1),
                _ => None,
            };
            homes.extend(into.map(|home| home.trim_matches('/').trim_start_matches("./").to_owned()));
        }
        Self { commands, homes, ..Self::default() }
    }

    /// Takes in what a file of code from before reads.
    pub fn add_code(&mut self, file: &TreeFile) {
        self.add_test(file);
        self.data.add(file);
    }

    /// Takes in what the commands compare, when all of them are known.
    pub fn compare(&mut self) {
        let lines = self.commands.iter().chain(self.bodies.iter().flat_map(|(_, lines)| lines));
        let lines: Vec<String> = lines.cloned().collect();
        self.data.add_commands(&lines);
    }

    /// Every word that makes a file part of the check.
    pub(crate) fn parts(&self) -> Vec<Part> {
        parts(&self.commands).into_iter().chain(self.more.iter().cloned()).collect()
    }

    /// Names of files that say more of what these commands run.
    pub fn names(&self) -> Vec<String> {
        let mut names: BTreeSet<String> = self.parts().iter().flat_map(Part::files).collect();
        for (called, _) in programs(&self.commands) {
            match called.as_str() {
                "make" | "gmake" => names.extend(["Makefile", "makefile", "GNUmakefile"].map(str::to_owned)),
                manager if MANAGERS.contains(&manager) => drop(names.insert(PACKAGE.to_owned())),
                _ => {}
            }
        }
        names.into_iter().collect()
    }

    /// Takes in what such a file tells. What lies in another project tells nothing of this one.
    pub fn add(&mut self, file: &TreeFile) {
        let concerns = |home: &String| project(home) == project(&file.path);
        if !self.homes.is_empty() && !self.homes.iter().any(concerns) {
            return;
        }
        let (home, name) = file.path.rsplit_once('/').unwrap_or(("", &file.path));
        let text = file.text.as_deref().unwrap_or_default();
        let is_included = self.parts().iter().any(|part| part.kind == Kind::Include && part.names(&file.path));
        if name == PACKAGE {
            self.add_package(text);
        } else if is_makefile(name) || name.ends_with(".mk") || is_included {
            self.add_makefile(home, text);
        } else if is_for_a_shell(name, text) {
            self.add_script(&file.path, text);
        } else {
            self.add_test(file);
        }
    }

    fn add_package(&mut self, text: &str) {
        let Ok(manifest) = serde_json::from_str::<Value>(text) else { return };
        if npm_script(text).is_none() {
            return;
        }
        let scripts = package_scripts(&manifest);
        for (name, from) in manifest["devDependencies"].as_object().into_iter().flatten() {
            let local =
                from.as_str().and_then(|from| from.strip_prefix("file:").or_else(|| from.strip_prefix("link:")));
            let runs = |script: &String| script.split_whitespace().any(|word| word == name);
            let part = local.map(|from| Part::new(from, scripts.iter().any(runs), Kind::Tests));
            self.more.extend(part);
        }
        self.commands.extend(scripts.iter().cloned());
        self.scripts.extend(scripts);
    }

    fn add_makefile(&mut self, home: &str, text: &str) {
        let text = text.replace("\\\n", " ");
        let (mut rule, mut defines) = (Rule::default(), false);
        for line in text.lines() {
            let bare = line.trim();
            let command = bare.trim_start_matches(['@', '-', '+']).to_owned();
            if line.starts_with('\t') || defines {
                defines &= bare != "endef";
                self.commands.push(command.clone());
                rule.recipe.push(command);
                continue;
            }
            let is_assigned = bare.split_once('=').is_some_and(|(left, _)| !left.trim_end_matches(':').contains(':'));
            match bare.split_once(':') {
                Some((targets, needs)) if !is_assigned && !bare.starts_with('#') => {
                    self.rules.push(std::mem::take(&mut rule));
                    let (needs, inline) = needs.split_once(';').unwrap_or((needs, ""));
                    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect();
                    let recipe: Vec<String> =
                        Some(inline.trim().to_owned()).filter(|one| !one.is_empty()).into_iter().collect();
                    self.commands.extend(recipe.iter().cloned());
                    rule = Rule { home: home.to_owned(), targets: words(targets), needs: words(needs), recipe };
                }
                _ => {
                    defines = bare.starts_with("define ");
                    // Values of variables, and what is included.
                    let is_included = ["include ", "-include ", "sinclude "].iter().any(|word| bare.starts_with(word));
                    self.commands.extend((is_assigned || is_included).then(|| bare.to_owned()));
                }
            }
        }
        self.rules.push(rule);
    }

    /// What a script runs is mostly what it looks at, unless its name tells of checks.
    fn add_script(&mut self, path: &str, text: &str) {
        let text = text.replace("\\\n", " ");
        let lines: Vec<String> = text.lines().map(|line| line.trim().to_owned()).collect();
        self.bodies.push((path.to_owned(), lines.clone()));
        let takes = |line: &String| [". ", "source "].iter().any(|word| line.starts_with(word));
        self.commands.extend(lines.iter().filter(|line| takes(line)).cloned());
        self.more.extend(parts(&lines).into_iter().filter(|part| is_checking(&part.seen)));
    }

    /// What a test from before takes in, and what its name does not say is tested: that is no product.
    pub fn add_test(&mut self, file: &TreeFile) {
        let is_run = |part: &Part| part.sure && part.names(&file.path);
        if !is_test(&file.path) && !self.parts().iter().any(is_run) {
            return;
        }
        let name = file.path.rsplit('/').next().unwrap_or(&file.path);
        let stem = name.split('.').next().unwrap_or(name);
        let subject = ["test_", "test-"].iter().find_map(|begin| stem.strip_prefix(begin)).unwrap_or(stem);
        let subject = ["_test", "-test"].iter().find_map(|end| subject.strip_suffix(end)).unwrap_or(subject);
        let is_subject = |seen: &str| {
            let last = seen.rsplit(['/', '.']).next().unwrap_or(seen);
            let stem = seen.rsplit('/').next().and_then(|name| name.split('.').next()).unwrap_or(seen);
            last == subject || stem == subject
        };
        let named = taken_in(file.text.as_deref().unwrap_or_default());
        let helps = named.into_iter().filter(|part| is_helping(&part.seen) && !is_subject(&part.seen));
        self.more.extend(helps);
    }

    /// Whether a rule makes this path. Where it is there already, what makes it does not run.
    pub(crate) fn makes(&self, path: &str) -> bool {
        let is_phony = |target: &String| {
            let phony = self.rules.iter().filter(|rule| rule.targets.iter().any(|one| one == ".PHONY"));
            phony.flat_map(|rule| &rule.needs).any(|one| one == target)
        };
        let is_made = |seen: &str, target: &String| {
            // A directory stands for the target as well as a file does.
            let within = matches!(target.as_str(), "test" | "check") && seen.split('/').next() == Some(target);
            !is_phony(target) && (fits(seen, &target.replace('%', "*")) || within)
        };
        self.rules.iter().filter(|rule| !rule.recipe.is_empty()).any(|rule| {
            let beneath = match rule.home.as_str() {
                "" => Some(path),
                above => path.strip_prefix(above).and_then(|rest| rest.strip_prefix('/')),
            };
            beneath.is_some_and(|seen| rule.targets.iter().any(|target| is_made(seen, target)))
        })
    }

    /// Whether a command that is no runner itself runs one in the end, and what that says.
    pub fn says(&self, command: &str) -> Says {
        let direct = Says::of(command);
        if direct != Says::Nothing || command.contains(['|', '>']) {
            return direct;
        }
        let mut lines = Vec::new();
        for (called, rest) in programs(&[command.to_owned()]) {
            match called.as_str() {
                "make" | "gmake" => {
                    let is_target = |word: &&String| !word.starts_with('-') && !word.contains(['=', '/']);
                    rest.iter().filter(is_target).for_each(|target| self.follow(target, 0, &mut lines));
                }
                manager if MANAGERS.contains(&manager) => lines.extend(self.scripts.iter().cloned()),
                _ => {}
            }
        }
        lines.iter().rev().map(|line| Says::of(line)).find(|says| *says != Says::Nothing).unwrap_or(Says::Nothing)
    }

    /// Whether what earlier runs made of a check matters to these commands, run in these places: it stands in one of their
    /// projects, or above it and is about how everything beneath is checked. Where they only look, what they run is theirs.
    pub fn relies_on(&self, path: &str, places: &[String]) -> bool {
        let is_run = self.parts().iter().any(|part| part.names(path));
        let only_looks = self.commands.iter().all(|command| self.only_looks(command));
        let own = project(path);
        let is_near = places.iter().any(|place| project(place) == own || project(place).is_empty());
        is_run || !only_looks && (is_near || own.is_empty() && crate::checks::is_known_check(path))
    }

    fn only_looks(&self, command: &str) -> bool {
        let is_looker = |name: &str| name == "cd" || IDLE.contains(&name) || LOOKING.contains(&name);
        programs(&[command.to_owned()]).iter().all(|(name, _)| is_looker(name))
    }

    /// Whether a command comes to nothing that could fail because of what it checks, where that stands in a file of the project.
    pub fn runs_nothing(&self, command: &str) -> bool {
        let mut called = Vec::new();
        let is_known = self.called(command, 0, &mut called);
        is_known && !called.is_empty() && called.iter().all(|name| IDLE.contains(&name.as_str()))
    }

    /// Adds the programs that are called in the end; whether any of them stands in a file of the project.
    fn called(&self, command: &str, depth: u32, called: &mut Vec<String>) -> bool {
        let mut is_known = false;
        for (name, rest) in programs(&[command.to_owned()]) {
            let mut lines = Vec::new();
            match name.as_str() {
                "cd" => continue,
                "make" | "gmake" => {
                    let is_target = |word: &&String| !word.starts_with('-') && !word.contains(['=', '/']);
                    rest.iter().filter(is_target).for_each(|target| self.follow(target, 0, &mut lines));
                }
                manager if MANAGERS.contains(&manager) && depth == 0 => lines.extend(self.scripts.iter().cloned()),
                "sh" | "bash" | "dash" if rest.len() == 1 => lines.extend(self.body(&rest[0])),
                _ => {}
            }
            is_known |= !lines.is_empty();
            match lines.is_empty() || depth == TARGETS_DEEP_MAX {
                true => called.push(name),
                false => {
                    for line in &lines {
                        self.called(line, depth + 1, called);
                    }
                }
            }
        }
        is_known
    }

    /// What a script runs that a command names.
    fn body(&self, seen: &str) -> Vec<String> {
        let part = Part::new(seen, true, Kind::Script);
        let mut bodies = self.bodies.iter().filter(|(path, _)| part.names(path));
        let found = bodies.next().map(|(_, lines)| lines.clone());
        // Of two that are called the same nobody knows which is meant.
        found.filter(|_| bodies.next().is_none()).unwrap_or_default()
    }

    fn follow(&self, target: &str, depth: u32, lines: &mut Vec<String>) {
        if depth == TARGETS_DEEP_MAX {
            return;
        }
        for rule in self.rules.iter().filter(|rule| rule.targets.iter().any(|one| one == target)) {
            rule.needs.iter().for_each(|need| self.follow(need, depth + 1, lines));
            for line in &rule.recipe {
                lines.push(line.clone());
                for (called, rest) in programs(std::slice::from_ref(line)) {
                    if matches!(called.as_str(), "make" | "gmake") {
                        rest.iter().for_each(|next| self.follow(next, depth + 1, lines));
                    }
                }
            }
        }
    }
}

/// Where a command goes before it does anything.
pub(crate) fn home(command: &str) -> Option<&str> {
    let (home, _) = command.strip_prefix("cd ")?.split_once(" && ")?;
    Some(home.trim_matches(['\'', '"']))
}

/// The scripts of a package that run with its test: those that run by their names, and those that these call.
pub(crate) fn package_scripts(manifest: &Value) -> Vec<String> {
    let Some(all) = manifest["scripts"].as_object() else { return Vec::new() };
    let mut wanted: Vec<&str> = all.keys().map(String::as_str).filter(|name| WITH_TEST.contains(name)).collect();
    let mut at = 0;
    while let Some(name) = wanted.get(at) {
        let script = all[*name].as_str().unwrap_or_default();
        let calls = |other: &str| {
            let called = |word: &str| word.len() > 1 && fits(other, word.trim_matches(['"', '\'']));
            let runs = ["run", "npm", "yarn", "pnpm", "bun"].iter().any(|word| script.contains(word));
            runs && script.split_whitespace().any(called)
        };
        let named: Vec<&str> = all.keys().map(String::as_str).filter(|other| calls(other)).collect();
        let around = |other: &&str| {
            named.iter().any(|name| ["pre", "post"].iter().any(|when| *other == format!("{when}{name}")))
        };
        let more: Vec<&str> = all.keys().map(String::as_str).filter(|one| named.contains(one) || around(one)).collect();
        let new: Vec<&str> = more.into_iter().filter(|one| !wanted.contains(one)).collect();
        wanted.extend(new);
        at += 1;
    }
    // The test itself is said last: what it runs is what counts.
    wanted.sort_by_key(|name| (!WITH_TEST[3..].contains(name), *name == "test"));
    wanted.iter().filter_map(|name| all[*name].as_str().map(str::to_owned)).collect()
}

fn is_for_a_shell(name: &str, text: &str) -> bool {
    let by_line = text.lines().next().is_some_and(|first| first.starts_with("#!") && first.contains("sh"));
    by_line || [".sh", ".bash"].iter().any(|end| name.ends_with(end))
}

/// What a file of code takes in, as far as its words say it: whatever looks like a path, and modules by their names.
fn taken_in(text: &str) -> Vec<Part> {
    let quoted = text.lines().flat_map(|line| line.split(['"', '\'', '`']).skip(1).step_by(2));
    let is_path = |word: &&str| !word.is_empty() && word.contains(['/', '.']) && !word.contains(char::is_whitespace);
    let mut parts: Vec<Part> = quoted.filter(is_path).map(|word| Part::new(word, false, Kind::Script)).collect();
    for line in text.lines() {
        let mut words = line.split(|letter: char| letter.is_whitespace() || letter == ',');
        let module = match words.next() {
            Some("import" | "from") => words.next(),
            _ => None,
        };
        parts.extend(module.filter(|name| !name.is_empty()).map(|name| Part::new(name, false, Kind::Module)));
    }
    parts
}

/// Changed files whose names say that only tests need them, though they stand where the product does.
pub fn is_helper(path: &str) -> bool {
    is_helping(path) && !is_test(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(commands: &[&str], files: &[(&str, &str)]) -> Told {
        let mut told = Told::of(commands.iter().map(ToString::to_string).collect());
        for (path, text) in files {
            let hash = choir_proto::Hash::ZERO;
            told.add(&TreeFile { path: (*path).into(), hash, text: Some((*text).into()) });
        }
        told
    }

    fn is_part(told: &Told, path: &str) -> bool {
        told.parts().iter().any(|part| part.names(path))
    }

    #[test]
    fn includes_and_scripts_are_followed_whatever_they_are_called() {
        let makefile = "D = conf\ninclude $(D)/rules\ntest:\n\t@sh ./check.sh\n\t$(SURE)\n";
        let read = told(&["cd 'p' && make test"], &[("p/Makefile", makefile)]);
        assert!(is_part(&read, "p/conf/rules") && is_part(&read, "p/check.sh") && !is_part(&read, "p/product"));
        assert!(read.names().contains(&"rules".to_owned()));
        let more = told(&["cd 'p' && make test"], &[("p/Makefile", makefile), ("p/conf/rules", "include more/deep\n")]);
        assert!(is_part(&more, "p/conf/more/deep"));
        let script = "set -e\n. ./lib.sh\nsh inner/check.sh\nsh product.sh | grep 1\n";
        let read = told(&["sh check.sh"], &[("check.sh", script)]);
        assert!(is_part(&read, "lib.sh") && is_part(&read, "inner/check.sh") && !is_part(&read, "product.sh"));
        assert!(!is_part(&told(&["cd a && make test"], &[("projects/b/Makefile", makefile)]), "check.sh"));
    }

    #[test]
    fn every_script_that_runs_with_a_test_is_one() {
        let package = r#"{"scripts": {"test": "npm run unit", "unit": "node scripts/unit.js", "pretest": "node scripts/lint.js",
            "preunit": "node before.js", "start": "node product.js"}, "devDependencies": {"checkit": "file:tools/checkit"}}"#;
        let read = told(&["npm test"], &[("package.json", package)]);
        for path in ["scripts/unit.js", "scripts/lint.js", "before.js", "tools/checkit/cli.js"] {
            assert!(is_part(&read, path), "{path}");
        }
        assert!(!is_part(&read, "product.js"));
    }

    #[test]
    fn what_a_runner_says_is_heard_through_what_calls_it() {
        let makefile = [("Makefile", "all:\n\tcargo test\ntest: unit\n\techo done\nunit:\n\tpython3 -m unittest\n")];
        assert_eq!(told(&[], &makefile).says("cd p && make test"), Says::OneOf(&["\nOK"]));
        assert_eq!(told(&[], &makefile).says("make test | tail"), Says::Nothing);
        let package = r#"{"scripts": {"test": "npm run unit", "unit": "node --test"}}"#;
        assert_eq!(told(&[], &[("package.json", package)]).says("npm test"), Says::NodeTests);
        let plain = [("Makefile", "test:\n\tgrep -q right product\n")];
        assert_eq!(told(&[], &plain).says("make test"), Says::Nothing);
    }

    #[test]
    fn what_does_nothing_is_told_from_what_runs() {
        let make = |recipe: &str, more: &[(&str, &str)]| {
            let makefile = format!("test:\n\t{recipe}\n");
            let files: Vec<_> = [("p/Makefile", makefile.as_str())].into_iter().chain(more.iter().copied()).collect();
            told(&["cd 'p' && make test"], &files).runs_nothing("cd 'p' && make test")
        };
        assert!(!make("sh ./check.sh", &[("p/check.sh", "set -e\ngrep -q right product\n")]));
        for runs in
            ["sh ./check.sh", "@grep -q right product && test -f other", "./product", "$(SURE)", "cc x.c && ./x"]
        {
            assert!(!make(runs, &[]), "{runs}");
        }
        for nothing in ["true", "@:", "echo fine; exit 0"] {
            assert!(make(nothing, &[]), "{nothing}");
        }
        let package = [("package.json", r#"{"scripts": {"test": "echo fine && true"}}"#)];
        assert!(told(&["npm test"], &package).runs_nothing("npm test"));
        assert!(!told(&["true"], &[]).runs_nothing("true"), "a person's own word");
    }

    #[test]
    fn what_a_rule_makes_is_not_the_workers_to_bring() {
        let makefile = ".PHONY: lint\ntest: check.out\n\tgrep yes check.out\ncheck.out: product\n\tsh c\n%.o: %.c\n\tcc\nlint:\n\tx\n";
        let read = told(&["cd p && make test"], &[("p/Makefile", makefile)]);
        for made in ["p/check.out", "p/lib.o", "p/test", "p/test/x"] {
            assert!(read.makes(made), "{made}");
        }
        assert!(!read.makes("p/product") && !read.makes("p/lint") && !read.makes("q/check.out"));
    }

    #[test]
    fn what_only_tests_take_in_is_known_by_its_name() {
        let text = "require('../lib/expect')(require('../product.js'))\n#[path = \"../checks/cases.rs\"] mod cases;\n";
        let read = told(&["node test/all.js"], &[("test/all.js", text)]);
        assert!(is_part(&read, "lib/expect.js") && is_part(&read, "checks/cases.rs") && !is_part(&read, "product.js"));
        let own = told(&["pytest"], &[("test_checks.py", "from checks import run\nimport helpers\n")]);
        assert!(!is_part(&own, "checks.py") && is_part(&own, "helpers.py"), "what is tested is the product");
    }
}
