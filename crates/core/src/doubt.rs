//! Why a check that passed proves less than it seems to.

use crate::discover::{is_words, project};
use crate::told::Told;
use crate::verify::{Plan, named};
use choir_proto::TaskId;
use choir_proto::task::{FileChange, VerifyMode, VerifyResult, VerifySource, VerifyStatus};
use std::collections::BTreeSet;

impl Plan {
    /// Doubts checks that run no test. Of others that name none nothing is heard but how they end, and that is believed: most small
    /// projects have no more to say, and code that may end its own check is doubted by itself.
    pub fn doubt_silent(&mut self, told: &Told) {
        if self.mode == VerifyMode::Smoke {
            return;
        }
        let silent = self.checks().filter(|(step, says)| !says.names_tests() && told.runs_nothing(&step.command));
        let silent: Vec<String> = silent.map(|(step, _)| format!("`{}` runs no test.", step.command)).collect();
        self.doubts.extend(silent);
    }

    /// Says of changed code that it may have made its own check pass.
    pub fn doubt_reaching(&mut self, paths: &[String]) {
        if !paths.is_empty() {
            let said = "what it says there can end a check or change how it ends.";
            self.doubts.push(format!("{} speaks to what checks it: {said}", named(paths)));
            self.doubtful.extend_from_slice(paths);
        }
    }

    /// Says of changed code that nobody can see what it does to its check.
    pub fn doubt_unread(&mut self, paths: &[String]) {
        if !paths.is_empty() {
            self.doubts.push(format!("What {} does to its check cannot be read.", named(paths)));
            self.doubtful.extend_from_slice(paths);
        }
    }

    /// Doubts a check that relies on what nobody has accepted.
    pub fn doubt_carried(&mut self, paths: &[String], tasks: &BTreeSet<TaskId>) {
        if paths.is_empty() {
            return;
        }
        let accept: Vec<String> = tasks.iter().map(|task| format!("`POST /api/tasks/{task}/accept`")).collect();
        self.doubts.push(format!(
            "The check relies on {}, which an earlier run changed and no person has accepted: look at it and accept it ({}), or \
             put it right.",
            named(paths),
            named(&accept)
        ));
    }
}

/// Doubts a check of what was then merged beside other changes: nobody has checked the two together. What a project brings itself
/// looks at that project only; what a person gave may look anywhere.
pub fn doubt_beside(verify: &mut VerifyResult, changed: &[FileChange], meanwhile: &[String]) -> Option<String> {
    let projects: BTreeSet<&str> = changed.iter().map(|file| project(&file.path)).collect();
    let everywhere = verify.source != VerifySource::Base || projects.contains("");
    let concerns = |path: &&String| !is_words(path) && (everywhere || projects.contains(project(path)));
    let beside: Vec<String> = meanwhile.iter().filter(concerns).cloned().collect();
    if verify.status != VerifyStatus::Pass || changed.is_empty() || beside.is_empty() {
        return None;
    }
    let doubt =
        format!("Somebody else changed {} meanwhile: it was checked without that, not together.", named(&beside));
    verify.doubts.push(doubt.clone());
    Some(doubt)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discover::Found;
    use crate::says::Says;
    use crate::verify::{Checks, Step};
    use choir_proto::Hash;
    use choir_proto::task::Verify;
    use choir_proto::wire::TreeFile;

    fn checks() -> Checks {
        let verify = Verify { mode: VerifyMode::Commands, commands: Vec::new() };
        Checks { verify, source: VerifySource::Person }
    }

    fn found(steps: Vec<Step>) -> Plan {
        checks().found(Found { steps, ..Found::default() }, &[])
    }

    #[test]
    fn a_runner_that_names_no_tests_is_believed_if_it_runs_some() {
        let doubts = |source, script: &str| {
            let mut told = Told::of(vec!["npm test".into()]);
            let text = Some(format!(r#"{{"scripts": {{"test": "{script}"}}}}"#));
            told.add(&TreeFile { path: "package.json".into(), hash: Hash::ZERO, text });
            let mut plan = found(vec![Step::check("npm test".into(), Says::of(script))]);
            (plan.source, plan.doubts) = (source, Vec::new());
            plan.doubt_silent(&told);
            plan.doubts.join(" ")
        };
        use VerifySource::{Base, Person};
        for source in [Base, Person] {
            assert!(doubts(source, "node test.js").is_empty() && doubts(source, "grep -q right product").is_empty());
        }
        assert_eq!(doubts(Person, "true"), "`npm test` runs no test.");
    }

    #[test]
    fn what_somebody_else_changed_meanwhile_was_not_checked_with_it() {
        let changed =
            [FileChange { path: "projects/p/product".into(), change: choir_proto::task::ChangeKind::Modified }];
        let doubt = |source, status, path: &str| {
            let mut verify = VerifyResult { source, status, ..checks().unchecked() };
            doubt_beside(&mut verify, &changed, &[path.to_owned()]).is_some() && !verify.holds()
        };
        use VerifySource::{Base, Person};
        use VerifyStatus::{Fail, Pass};
        assert!(doubt(Base, Pass, "projects/p/helper") && doubt(Person, Pass, "projects/q/helper"));
        assert!(!doubt(Base, Pass, "projects/q/helper") && !doubt(Base, Fail, "projects/p/helper"));
        assert!(!doubt(Person, Pass, "notes.md"), "no check reads what people read");
    }

    #[test]
    fn who_has_to_accept_what_is_said() {
        let mut plan = found(Vec::new());
        plan.doubts.clear();
        let task = TaskId::new(uuid::Uuid::nil());
        plan.doubt_carried(&[], &BTreeSet::from([task]));
        assert!(plan.doubts.is_empty());
        plan.doubt_carried(&[".cargo/config.toml".to_owned()], &BTreeSet::from([task]));
        let said = plan.doubts.join(" ");
        assert!(
            said.contains(".cargo/config.toml") && said.contains(&format!("POST /api/tasks/{task}/accept")),
            "{said}"
        );
    }
}
