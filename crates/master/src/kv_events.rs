//! Tells subscribers which keys are kept where, while this master leads.

use std::io;
use std::net::TcpListener;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use mooncake_kv_events::{
    Change, Config, Event, Fields, Page, Passwords, Publisher, Snapshot, Tier,
};
use mooncake_meta::{KeyEvent, KeyLabels, Meta};
use mooncake_types::{DEFAULT_TENANT, split_tenant};
use tracing::info;

use crate::ask::Asker;
use crate::bind::Ports;
use crate::config::KvEvents;
use crate::owner::SCAN_PAGE_OBJECTS;

/// Bytes of the latest batches that are kept.
const HISTORY_BYTES: usize = 64 << 20;

/// Begins to publish, to those who show one of the passwords if there are any.
pub(crate) fn start(
    config: &KvEvents,
    ports: Ports,
    asker: Asker,
    passwords: Option<Passwords>,
) -> io::Result<Arc<Publisher>> {
    let fields = Fields {
        backend_id: config.backend_id.clone(),
        are_legacy_names_there: config.emit_legacy_compat,
        is_key_there: config.emit_object_key,
    };
    let queue_capacity = config.queue_capacity;
    // A restarted master numbers its events from a much higher number, so that subscribers notice a gap.
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let numbers_after = u64::try_from(since_1970.as_micros()).unwrap_or_default();
    let replay_addr = ports.replays.as_ref().map(TcpListener::local_addr).transpose()?;
    let publisher = Publisher::start(
        ports.subscribers,
        ports.replays,
        Config { fields, queue_capacity, history_bytes: HISTORY_BYTES, numbers_after },
        Box::new(Keys(asker)),
        passwords,
    )?;
    let addr = publisher.address();
    match replay_addr {
        Some(replay_addr) => info!(%addr, %replay_addr, "KV events are published"),
        None => info!(%addr, "KV events are published"),
    }
    Ok(Arc::new(publisher))
}

/// Begins a new term: events of the term before are void.
pub(crate) fn begin(publisher: &Publisher, meta: &mut Meta) {
    publisher.publish([Event::Cleared]);
    meta.record_key_events();
}

/// The changes, as one event for each tier.
pub(crate) fn events(changed: Vec<KeyEvent>) -> impl Iterator<Item = Event> {
    changed.into_iter().flat_map(|KeyEvent { key, before, now, labels }| {
        let tiers =
            [(Tier::Memory, before.memory, now.memory), (Tier::Disk, before.disk, now.disk)];
        tiers.into_iter().filter(|(_, before, now)| before != now).map(
            move |(tier, _, is_there)| {
                let change = if is_there { Change::Stored } else { Change::Removed };
                let KeyLabels { group, session } = labels.clone();
                let (tenant, key) = split_tenant(&key);
                let tenant = (tenant != DEFAULT_TENANT).then(|| tenant.into());
                Event::Key { key: key.into(), tenant, tier, change, group, session }
            },
        )
    })
}

/// All keys, which the owner of the current term lists.
struct Keys(Asker);

impl Snapshot for Keys {
    fn page(&self, from: u64) -> Pin<Box<dyn Future<Output = Option<Page>> + Send + '_>> {
        Box::pin(async move {
            let from = u32::try_from(from).ok()?;
            let look =
                move |owner: &mut crate::owner::Owner| owner.meta.key_page(from, SCAN_PAGE_OBJECTS);
            let (stored, next) = self.0.ask(look).await.ok()?;
            Some((events(stored).collect(), next.map(u64::from)))
        })
    }
}
