//! What a researcher reads: pages, kept as sources before anybody quotes them.

use super::HarnessError;
use super::perform::{Performed, Performer, shorten};
use crate::control::{ControlError, Fetched};
use choir_core::agent::Begin;
use choir_core::effect;
use choir_core::page;
use choir_proto::ArtifactId;
use choir_proto::event::{ArtifactImported, ToolOutcome};
use choir_proto::inbox::Verdict;
use choir_proto::wire::Fetch;

/// Hosts that one page may ask for: where it is said to be, and where it is sent on to.
const HOSTS_ASKED_MAX: usize = 6;

impl Performer {
    /// Fetches a page. Its bytes and the text in them become artifacts; the text is what can be quoted.
    pub(super) async fn fetch(&self, url: &str, begin: &Begin) -> Result<Performed, HarnessError> {
        let page = match self.page(url).await? {
            Ok(page) => page,
            Err(error) => return Ok(Performed::new(ToolOutcome::Error, error.to_string())),
        };
        let Some(text) = readable(&page) else {
            let why = format!("{} is {}, which cannot be read as text.", page.url, page.media_type);
            return Ok(Performed::new(ToolOutcome::Error, why));
        };
        let bytes = self.artifact(begin, "page", page.bytes, &page.media_type, &page.url).await?;
        let source =
            self.artifact(begin, "text", text.clone().into_bytes(), "text/plain; charset=utf-8", &page.url).await?;
        let told = format!("Source {} ({}). Its text, as data:\n{}", source.artifact_id, page.url, shorten(&text));
        self.together(begin, vec![bytes.into(), source.into()], &told).await
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

    /// A fact about bytes that are kept. Its name follows from the call, so that a crash does not bring it in twice.
    async fn artifact(
        &self,
        begin: &Begin,
        what: &str,
        bytes: Vec<u8>,
        media_type: &str,
        origin: &str,
    ) -> Result<ArtifactImported, HarnessError> {
        let artifact_id = ArtifactId::new(effect::derived(&begin.effect_id, what));
        let (size, media_type, origin) = (bytes.len() as u64, media_type.to_owned(), origin.to_owned());
        let content_hash = self.context.harness.documents.keep(bytes).await?;
        Ok(ArtifactImported { artifact_id, content_hash, size, media_type, origin })
    }
}

/// The text of a page; nothing for what is no text.
fn readable(page: &Fetched) -> Option<String> {
    let text = String::from_utf8(page.bytes.clone()).ok()?;
    Some(if page::is_html(&page.media_type) { page::text(&text) } else { text })
}
