//! A plan that is shown before anything is delegated.

use choir_proto::Event;
use choir_proto::event::BlockedOn;

/// Whether the person had said yes to the plan that was shown last. Who goes on while no plan is shown, after a pause or while
/// another plan is made, has said yes to none.
pub fn approved<'a>(events: impl Iterator<Item = &'a Event>) -> bool {
    let (mut shown, mut approved) = (false, false);
    for event in events {
        match event {
            Event::RunBlocked(blocked) if blocked.on == BlockedOn::Plan => (shown, approved) = (true, false),
            Event::RunResumed(_) => approved |= shown,
            // Other words than yes, or it goes on: what was shown has been decided about.
            Event::RunSteered(_) | Event::RunStarted(_) => shown = false,
            _ => {}
        }
    }
    approved
}

#[cfg(test)]
mod tests {
    use super::*;
    use choir_proto::event::{RunBlocked, RunPaused, RunResumed, RunStarted, RunSteered};

    #[test]
    fn only_a_plan_that_is_shown_can_be_approved() {
        let shown = || Event::from(RunBlocked { on: BlockedOn::Plan, message: "- [ ] terminal: work".into() });
        let (started, resumed) = (|| Event::from(RunStarted {}), || Event::from(RunResumed {}));
        let steered = || Event::from(RunSteered { text: "otherwise".into() });
        let approved = |events: &[Event]| approved(events.iter());
        assert!(!approved(&[started()]) && !approved(&[started(), shown()]));
        assert!(approved(&[started(), shown(), resumed()]));
        assert!(approved(&[started(), shown(), resumed(), started(), RunPaused {}.into(), resumed()]));
        let replans = [started(), shown(), steered(), started(), RunPaused {}.into(), resumed()];
        assert!(!approved(&replans), "a pause that is over approves nothing");
        let again = [&replans[..], &[shown()]].concat();
        assert!(!approved(&again), "the second plan waits too");
        assert!(approved(&[&again[..], &[resumed()]].concat()));
    }
}
