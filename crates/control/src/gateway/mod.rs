//! The model gateway: the only holder of provider keys and the only client of providers.

#[cfg(feature = "bedrock")]
mod aws;
mod bill;
mod cooling;
mod discovery;
mod failing;
mod listen;
mod minute;
mod model;
mod probe;
mod provider;
mod router;
mod settings;
mod spending;
mod tariff;
pub(crate) mod veil;

pub use discovery::{Found, look_around};
pub use provider::{KeyFrom, Provider, ProviderError};
pub(crate) use router::lines;
pub use router::service;
pub use settings::Settings;

use crate::config::{Config, ProviderKind};
use crate::db::{self, Db, Stored};
use crate::outbound::Outbound;
use crate::seal::Seal;
use choir_llm::Secret;
use choir_proto::Role;
use choir_proto::wire;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicI64;
use std::sync::{Arc, RwLock};
use tokio::sync::watch;

/// How often a provider is tried before the next.
const TRIES_EACH: u32 = 2;

/// A provider, and which of its models; nothing for the first that it offers.
type Chosen = (Arc<Provider>, Option<String>);

/// A handle to the gateway; cheap to clone.
#[derive(Debug, Clone)]
pub struct Gateway(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    db: Db,
    seal: Seal,
    /// As the file says.
    configured: Settings,
    outbound: Outbound,
    /// What is in force now. Changed by settings and provider routes alone.
    now: RwLock<Now>,
    available: watch::Sender<wire::Models>,
    failures: model::Failures,
    cooling: cooling::Cooling,
    failing: failing::Failing,
    minutes: minute::Minutes,
    reserved: spending::Reserved,
    spent: spending::Spending,
    /// Names calls, in the life of this process.
    calls: AtomicI64,
}

#[derive(Debug, Clone, Default)]
struct Now {
    settings: Settings,
    providers: BTreeMap<String, Arc<Provider>>,
    /// Their names, first found first: as the configuration has them, then as they were added in the desktop.
    order: Vec<String>,
}

/// Why the gateway cannot start or change.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The database refused.
    #[error(transparent)]
    Db(#[from] db::Error),
    /// A provider is not usable as it is configured.
    #[error(transparent)]
    Provider(#[from] ProviderError),
    /// Stored settings are not what they should be.
    #[error("the stored settings cannot be read")]
    Settings(#[source] serde_json::Error),
}

/// The provider in `PROVIDER/MODEL`.
pub(crate) fn provider_of(model: &str) -> Option<&str> {
    let (provider, name) = model.split_once('/')?;
    (!name.is_empty()).then_some(provider)
}

/// The provider in what calls to a model are kept under.
fn provider_name(model: &str) -> &str {
    model.split_once('/').map_or(model, |(provider, _)| provider)
}

/// What a call to somebody is kept under.
fn name_of((provider, model): &Chosen) -> String {
    format!("{}/{}", provider.name, model.as_deref().unwrap_or_default())
}

/// Whether every provider of a configuration is usable as it stands there; nobody is asked.
pub(crate) fn examine(config: &Config, base: &std::path::Path) -> Result<(), Error> {
    config.providers.iter().try_for_each(|(name, provider)| Ok(Provider::configured(name, provider, base).map(drop)?))
}

impl Gateway {
    /// From the configuration and what the desktop has added to it. `base` is where relative script paths begin.
    pub async fn open(config: Config, base: &std::path::Path, db: Db, seal: Seal) -> Result<Self, Error> {
        let said = Settings::configured(&config);
        let mut now = Now { settings: Settings::open(&said, &db).await?, ..Now::default() };
        let in_file = |name: &String| config.provider_order.iter().position(|known| known == name);
        let mut configured: Vec<_> = config.providers.iter().collect();
        configured.sort_by_key(|(name, _)| in_file(name));
        for (name, provider) in configured {
            now.put(Provider::configured(name, provider, base)?);
        }
        db.settle_calls().await?;
        for stored in db.providers().await? {
            if let Some(provider) = Provider::stored(&stored, &seal, now.providers.get(&stored.name).map(|p| &**p)) {
                now.put(provider);
            }
        }
        let gateway = Self(Arc::new(Parts {
            db,
            seal,
            configured: said,
            outbound: Outbound::default(),
            now: RwLock::new(now),
            available: watch::channel(wire::Models::default()).0,
            failures: model::Failures::default(),
            cooling: cooling::Cooling::default(),
            failing: failing::Failing::default(),
            minutes: minute::Minutes::default(),
            reserved: spending::Reserved::default(),
            spent: spending::Spending::default(),
            calls: AtomicI64::new(0),
        }));
        gateway.announce(true);
        Ok(gateway)
    }

    /// Whether prompts can be worked on.
    pub fn models(&self) -> wire::Models {
        self.0.available.borrow().clone()
    }

    /// Rings when that changes, and whenever a model that was missing may be there now.
    pub fn watch_models(&self) -> watch::Receiver<wire::Models> {
        self.0.available.subscribe()
    }

    /// What is in force.
    pub fn settings(&self) -> Settings {
        self.now().settings
    }

    /// What of it was changed in the desktop, by the names that it has in the file.
    pub fn overrides(&self) -> Vec<String> {
        self.settings().overrides(&self.0.configured)
    }

    /// Every provider, by name.
    pub fn providers(&self) -> Vec<Arc<Provider>> {
        self.now().providers.into_values().collect()
    }

    /// Whether a text is `PROVIDER/MODEL` of a provider that is there, usable now or not.
    pub fn names_provider(&self, model: &str) -> bool {
        provider_of(model).is_some_and(|provider| self.now().providers.contains_key(provider))
    }

    /// The client for the outside; nobody else has one.
    pub(crate) fn outbound(&self) -> Outbound {
        self.0.outbound.clone()
    }

    /// Changes settings for good.
    pub async fn change(&self, settings: Settings) -> Result<(), Error> {
        settings.store(&self.0.configured, &self.0.db).await?;
        self.write(|now| now.settings = settings);
        Ok(())
    }

    /// Adds a provider or changes it; a key that is not given stays as it was.
    pub async fn put_provider(
        &self,
        name: &str,
        kind: ProviderKind,
        base_url: Option<String>,
        key: Option<Secret>,
    ) -> Result<(), Error> {
        let before = self.now().providers.get(name).cloned();
        let key = key.or_else(|| before.as_ref().filter(|b| b.key_from == KeyFrom::Stored).and_then(|b| b.key.clone()));
        let sealed_key = key.as_ref().map(|key| self.0.seal.seal(name, &crate::secret::Secret::new(key.expose())));
        let stored = Stored { name: name.to_owned(), kind: kind.name().to_owned(), base_url, sealed_key };
        self.0.db.set_provider(stored.clone()).await?;
        if let Some(provider) = Provider::stored(&stored, &self.0.seal, before.as_deref()) {
            self.forgive(name);
            self.write(|now| now.put(provider));
        }
        Ok(())
    }

    /// Forgets what was wrong with the models of a provider: it has another key or place, or answers. Whether anything was.
    fn forgive(&self, provider: &str) -> bool {
        let was_cooling = self.0.cooling.forget(provider);
        self.0.failing.forget(provider) || was_cooling
    }

    /// The provider and model for a call: as asked, else the role's, else the default, else the first that is usable.
    /// The tour's own models are nobody's choice but the tour's.
    pub(crate) fn choose(&self, asked: Option<&str>, role: Role) -> Option<Chosen> {
        if let Some((model, provider)) = asked.and_then(|model| Some((model, crate::tour::provider(model)?))) {
            return Some((Arc::new(provider), model.split_once('/').map(|(_, model)| model.to_owned())));
        }
        let now = self.now();
        let roles = now.settings.models.roles.get(&role).map(String::as_str);
        let default = Some(now.settings.models.default.as_str());
        let wanted = [asked, roles, default].into_iter().flatten().find(|model| !model.is_empty());
        match wanted {
            Some(wanted) => {
                let (provider, model) = wanted.split_once('/')?;
                let provider = now.providers.get(provider).filter(|provider| provider.is_usable())?;
                Some((provider.clone(), Some(model.to_owned())))
            }
            None => now.first_found().map(|first| (first, None)),
        }
    }

    /// Everybody who may be asked, beginning with whose turn it is: each is tried a few times, then the next, and then the first
    /// again. Those that failed to the end a moment ago come last, whose turn it may be.
    fn in_turn(&self, chosen: Option<Chosen>, failures: u32) -> Vec<Chosen> {
        let now = self.now();
        let named = now.settings.models.fallback.iter().filter_map(|wanted| {
            let (provider, model) = wanted.split_once('/')?;
            let provider = now.providers.get(provider).filter(|provider| provider.is_usable())?;
            Some((provider.clone(), Some(model.to_owned())))
        });
        let mut all: Vec<Chosen> = chosen.into_iter().chain(named).collect();
        let turn = (failures / TRIES_EACH) as usize;
        let first = turn.checked_rem(all.len()).unwrap_or_default();
        all.rotate_left(first);
        all.sort_by_key(|chosen| self.0.failing.knows(&name_of(chosen)));
        all
    }

    fn now(&self) -> Now {
        self.0.now.read().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    fn write<T>(&self, change: impl FnOnce(&mut Now) -> T) {
        let before = self.now();
        change(&mut self.0.now.write().unwrap_or_else(std::sync::PoisonError::into_inner));
        self.announce(self.now().chooses_otherwise(&before));
    }

    /// Whoever waits for one provider is not helped by another: all that could matter to anybody is told, also where some
    /// model was there before.
    fn announce(&self, is_news: bool) {
        let models = wire::Models { available: self.choose(None, Role::Conductor).is_some() };
        self.0.available.send_if_modified(|before| std::mem::replace(before, models.clone()) != models || is_news);
    }
}

impl Now {
    /// Adds a provider, in the place of one of the same name.
    fn put(&mut self, provider: Provider) {
        let name = provider.name.clone();
        if self.providers.insert(name.clone(), Arc::new(provider)).is_none() {
            self.order.push(name);
        }
    }

    /// The first that can be asked.
    fn first_found(&self) -> Option<Arc<Provider>> {
        let mut in_order = self.order.iter().filter_map(|name| self.providers.get(name));
        in_order.find(|provider| provider.is_usable()).cloned()
    }

    /// Whether a call may go elsewhere than before: other models are chosen, or a provider is usable that was not, or was
    /// with another key or at another place.
    fn chooses_otherwise(&self, before: &Self) -> bool {
        let is_known = |provider: &Arc<Provider>| before.providers.values().any(|known| Arc::ptr_eq(known, provider));
        let mut usable = self.providers.values().filter(|provider| provider.is_usable());
        self.settings.models != before.settings.models || !usable.all(is_known)
    }
}
