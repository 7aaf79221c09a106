//! The folds of `core` as views of the store, and typed reading of their rows.

use choir_core::fold::Fold;
use choir_core::fold::carried::Carried;
use choir_core::fold::desktop::Desktops;
use choir_core::fold::document::{Documents, Texts, Titles, Versions};
use choir_core::fold::evidence::{Artifacts, Citations};
use choir_core::fold::figure::Figures;
use choir_core::fold::proposal::Proposals;
use choir_core::fold::replica::{Authors, Tails};
use choir_core::fold::run::{ActiveRuns, Runs};
use choir_core::fold::task::{ActiveTasks, TaskRuns, TaskWishes, Tasks};
use choir_core::undo::ActiveUndos;
use choir_proto::Event;
use choir_proto::event::Header;
use choir_store::view::Load;
use choir_store::{LiveViews, Projection, StoreError};
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Every view of a computer.
pub fn projections() -> Vec<Box<dyn Projection>> {
    vec![
        Box::new(Typed::<Runs>::default()),
        Box::new(Typed::<ActiveRuns>::default()),
        Box::new(Typed::<Tasks>::default()),
        Box::new(Typed::<ActiveTasks>::default()),
        Box::new(Typed::<TaskRuns>::default()),
        Box::new(Typed::<TaskWishes>::default()),
        Box::new(Typed::<ActiveUndos>::default()),
        Box::new(Typed::<Carried>::default()),
        Box::new(Typed::<Documents>::default()),
        Box::new(Typed::<Titles>::default()),
        Box::new(Typed::<Versions>::default()),
        Box::new(Typed::<Texts>::default()),
        Box::new(Typed::<Tails>::default()),
        Box::new(Typed::<Authors>::default()),
        Box::new(Typed::<Proposals>::default()),
        Box::new(Typed::<Figures>::default()),
        Box::new(Typed::<Citations>::default()),
        Box::new(Typed::<Artifacts>::default()),
        Box::new(Typed::<Desktops>::default()),
    ]
}

/// A fold whose rows are JSON in the store. `serde_json` writes struct fields in their order and our maps are sorted, so
/// equal rows are equal bytes.
struct Typed<F: Fold> {
    rows: HashMap<String, Slot<F::Row>>,
    dirty: Vec<String>,
}

/// A row in memory.
struct Slot<R> {
    row: Option<R>,
    dirty: bool,
}

impl<F: Fold> Default for Typed<F> {
    fn default() -> Self {
        Self { rows: HashMap::new(), dirty: Vec::new() }
    }
}

impl<F: Fold> Projection for Typed<F> {
    fn name(&self) -> &'static str {
        F::NAME
    }

    fn version(&self) -> u32 {
        F::VERSION
    }

    fn apply(&mut self, header: &Header, event: &Event, load: &mut Load<'_>) -> Result<(), StoreError> {
        let Some(key) = F::key(header, event) else { return Ok(()) };
        let slot = match self.rows.entry(key) {
            Entry::Occupied(slot) => slot.into_mut(),
            Entry::Vacant(place) => {
                let row = load(place.key())?.map(|bytes| decode::<F>(&bytes)).transpose()?;
                self.dirty.push(place.key().clone());
                place.insert(Slot { row, dirty: true })
            }
        };
        F::apply(&mut slot.row, header, event);
        if !slot.dirty {
            slot.dirty = true;
            self.dirty.extend(F::key(header, event));
        }
        Ok(())
    }

    fn dirty(&self) -> Vec<String> {
        let mut keys = self.dirty.clone();
        // Neighbours on disk are written one after the other.
        keys.sort_unstable();
        keys
    }

    fn peek(&self, key: &str) -> Option<Option<Vec<u8>>> {
        self.rows.get(key).map(|slot| slot.row.as_ref().map(encode::<F>))
    }

    fn clean(&mut self) {
        if self.rows.len() > F::CACHED_MAX {
            self.rows.clear();
        }
        for key in self.dirty.drain(..) {
            if let Some(slot) = self.rows.get_mut(&key) {
                slot.dirty = false;
            }
        }
    }

    fn reset(&mut self) {
        *self = Self::default();
    }
}

fn encode<F: Fold>(row: &F::Row) -> Vec<u8> {
    serde_json::to_vec(row).expect("rows are plain data with string keys, which JSON can always hold")
}

fn decode<F: Fold>(bytes: &[u8]) -> Result<F::Row, StoreError> {
    serde_json::from_slice(bytes)
        .map_err(|error| StoreError::Row { seq: 0, what: format!("a row of {}: {error}", F::NAME) })
}

/// Typed reading.
#[derive(Debug, Clone)]
pub struct ViewReader {
    views: LiveViews,
}

impl ViewReader {
    /// Reads from these views.
    pub fn new(views: LiveViews) -> Self {
        Self { views }
    }

    /// Resolves when they follow the log no longer and everything that they had is written down.
    pub async fn ended(&self) {
        self.views.ended().await;
    }

    /// Why they do not follow the log at the moment.
    pub fn trouble(&self) -> Option<String> {
        self.views.trouble()
    }

    /// One row.
    pub async fn get<F: Fold>(&self, key: impl ToString) -> Result<Option<F::Row>, StoreError> {
        let key = key.to_string();
        let bytes = self.views.read(move |views| views.get(F::NAME, &key)).await?;
        bytes.map(|bytes| decode::<F>(&bytes)).transpose()
    }

    /// Rows from the greatest key down.
    pub async fn newest<F: Fold>(
        &self,
        before: Option<String>,
        limit: usize,
    ) -> Result<Vec<(String, F::Row)>, StoreError> {
        let rows = self.views.read(move |views| views.newest(F::NAME, before.as_deref(), limit)).await?;
        rows.into_iter().map(|(key, bytes)| Ok((key, decode::<F>(&bytes)?))).collect()
    }

    /// Rows whose keys begin alike, in order.
    pub async fn with_prefix<F: Fold>(&self, prefix: String, limit: usize) -> Result<Vec<F::Row>, StoreError> {
        let rows = self.views.read(move |views| views.with_prefix(F::NAME, &prefix, limit)).await?;
        rows.into_iter().map(|(_, bytes)| decode::<F>(&bytes)).collect()
    }
}
