//! What a researcher reads: pages, kept as sources before anybody quotes them.

use super::perform::{Performed, Performer, shorten};
use super::read::Sheet;
use super::{HarnessError, start_associate};
use crate::control::{ControlError, Fetched};
use choir_core::agent::Begin;
use choir_core::effect;
use choir_core::page::{Format, charset};
use choir_proto::event::{ArtifactImported, ToolOutcome};
use choir_proto::inbox::Verdict;
use choir_proto::task::Egress;
use choir_proto::wire::{Fetch, StartAssociate};
use choir_proto::{ArtifactId, Role};

/// Hosts that one page may ask for: where it is said to be, and where it is sent on to.
const HOSTS_ASKED_MAX: usize = 6;

impl Performer {
    /// Fetches a page. Its bytes and the text in them become artifacts; the text is what can be quoted.
    pub(super) async fn fetch(&self, url: &str, begin: &Begin) -> Result<Performed, HarnessError> {
        let page = match self.page(url).await? {
            Ok(page) => page,
            Err(error) => return Ok(Performed::new(ToolOutcome::Error, error.to_string())),
        };
        let text = match self.readable(&page, &begin.effect_id).await? {
            Ok(text) => text,
            Err(why) => return Ok(Performed::new(ToolOutcome::Error, why)),
        };
        let source = self.artifact(begin, page, &text).await?;
        let told = format!("Source {} ({}). Its text, as data:\n{}", source.artifact_id, source.origin, shorten(&text));
        self.together(begin, vec![source.into()], &told).await
    }

    /// Gets a page, asking the person about every host on the way that nobody has decided about.
    async fn page(&self, url: &str) -> Result<Result<Fetched, ControlError>, HarnessError> {
        for _ in 0..HOSTS_ASKED_MAX {
            let fetch = Fetch { task: Some(self.task()), run: Some(self.context.run), url: url.to_owned() };
            let waits = match self.context.harness.control.fetch(fetch).await {
                Err(ControlError::Waits(waits)) => *waits,
                other => return Ok(other),
            };
            match self.person().wait(waits, None).await? {
                Ok(Verdict::Approved { .. }) => {}
                Ok(_) => return Ok(Err(ControlError::Refused("The person does not allow this page.".into()))),
                Err(error) => return Ok(Err(error)),
            }
        }
        Ok(Err(ControlError::Refused("The page leads to one new host after the other.".into())))
    }

    /// A fact about a page that is kept. Its name follows from the call, so that a crash does not bring it in twice.
    async fn artifact(&self, begin: &Begin, page: Fetched, text: &str) -> Result<ArtifactImported, HarnessError> {
        let documents = &self.context.harness.documents;
        let artifact_id = ArtifactId::new(effect::derived(&begin.effect_id, "page"));
        let Fetched { url: origin, media_type, bytes } = page;
        let parsed = (bytes != text.as_bytes()).then(|| text.as_bytes().to_vec());
        let (size, content_hash) = (bytes.len() as u64, documents.keep(bytes).await?);
        let text = match parsed {
            Some(text) => Some(documents.keep(text).await?),
            None => None,
        };
        Ok(ArtifactImported { artifact_id, content_hash, size, media_type, origin, text, unreadable: None })
    }
}

impl Performer {
    /// The text of a page, or why there is none. What has to be parsed is parsed in the reader's own sandbox, which has no
    /// network and whose changes go nowhere: a page that takes its reader over has taken nothing.
    async fn readable(&self, page: &Fetched, effect_id: &str) -> Result<Result<String, String>, HarnessError> {
        let Some(format) = Format::of(&page.media_type, &page.bytes) else {
            let why = || format!("{} is {}, which cannot be read as text.", page.url, page.media_type);
            return Ok(String::from_utf8(page.bytes.clone()).map_err(|_| why()));
        };
        if let Err(why) = self.reading_room().await? {
            return Ok(Err(why));
        }
        let charset = charset(&page.media_type);
        let sheet = Sheet { format, charset, bytes: &page.bytes, wall: self.purse.time_left() };
        Ok(self.context.harness.read(self.task(), effect_id, sheet).await)
    }

    /// A researcher has a sandbox only when it needs one: without a network, over what the workspace was, and for nobody
    /// else to see. Why not, if it cannot be had.
    pub(super) async fn reading_room(&self) -> Result<Result<(), String>, HarnessError> {
        if self.identity.role != Role::Researcher {
            return Ok(Ok(()));
        }
        let egress = Some(Egress { allow: Vec::new() });
        let start = StartAssociate { egress, run: Some(self.identity.run), base: None, check: None };
        Ok(match start_associate(&self.person(), self.task(), start).await? {
            Ok(Some(_)) => Ok(()),
            Ok(None) => Err("Stopped.".to_owned()),
            Err(error) => Err(format!("No sandbox could be started: {error}")),
        })
    }
}
