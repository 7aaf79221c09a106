//! The two parts that nobody can do without: the log's writer and the views that follow it. Each has an actor that
//! fails when its part is gone, so that the tree knows.

use choir_store::{LiveViews, Log};
use ractor::{Actor, ActorProcessingErr, ActorRef};

/// Watches the log's writer.
pub(super) struct EventStore;

/// Watches the views.
pub(super) struct EventBus;

/// The only thing a watcher can be told.
pub(super) struct Gone;

impl Actor for EventStore {
    type Msg = Gone;
    type State = ();
    type Arguments = Log;

    async fn pre_start(&self, myself: ActorRef<Gone>, log: Log) -> Result<(), ActorProcessingErr> {
        let mut head = log.watch();
        tokio::spawn(async move {
            while head.changed().await.is_ok() {}
            // The tree may be gone before the log is: that is the usual end.
            myself.send_message(Gone).ok();
        });
        Ok(())
    }

    async fn handle(&self, _: ActorRef<Gone>, Gone: Gone, (): &mut ()) -> Result<(), ActorProcessingErr> {
        Err("the log's writer is gone".into())
    }
}

impl Actor for EventBus {
    type Msg = Gone;
    type State = ();
    type Arguments = LiveViews;

    async fn pre_start(&self, myself: ActorRef<Gone>, views: LiveViews) -> Result<(), ActorProcessingErr> {
        tokio::spawn(async move {
            views.ended().await;
            myself.send_message(Gone).ok();
        });
        Ok(())
    }

    async fn handle(&self, _: ActorRef<Gone>, Gone: Gone, (): &mut ()) -> Result<(), ActorProcessingErr> {
        Err("the views no longer follow the log".into())
    }
}
