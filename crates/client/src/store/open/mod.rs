mod check;
mod disk;
mod join;
mod object_store;
mod opening;
mod segment;
mod shared_disk;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use mooncake_node::{Host, UpkeepThread};
use mooncake_ops::RouteCache;
use mooncake_types::LogLimiter;

use super::get_sessions::GetSessions;
use super::mounts::Mounts;
use super::put_sessions::PutSessions;
use super::serving::Serving;
use super::session::Session;
use crate::config::StoreConfig;
use crate::heartbeat::Heartbeat;
use crate::http::Http;
use crate::open_error::OpenError;
use crate::store_condition::StoreCondition;
use check::check;
use opening::{Opening, Wanted};

/// Opens a session, as long as `is_wanted` returns true. Also returns the hostname.
pub(super) fn open(config: StoreConfig, is_wanted: Wanted) -> Result<(Session, String), OpenError> {
    check(&config)?;
    let mut opening = Opening::new(config, is_wanted)?;
    let metrics = Arc::new(opening.metrics()?);
    let http = opening.config.http.as_ref();
    let condition = Arc::new(StoreCondition::default());
    let told = || (Arc::clone(&metrics), Arc::clone(&condition));
    let start = |address| Http::start(address, told(), opening.tls.clone());
    let http = http.map(start).transpose()?;
    let host = Arc::new(opening.host()?);
    metrics.show_disks(&host);
    opening.show_device(&metrics);
    opening.lend_object_store(&host)?;
    // Note the epoch that a named segment kept, unless no leader can have it. The node obeys no older leader anyway.
    let _ = opening.masters.believe(host.epoch());
    let routes = Arc::new(RouteCache::new(opening.route_limits()));
    host.outlast_promises();
    let mut master = opening.join(&host, &routes, &metrics)?;
    let bound = opening.bind(&master)?;
    let (hostname, endpoint) = (bound.hostname.clone(), bound.endpoint.clone());
    let serving =
        Serving::hold(bound.socket, Arc::clone(&host) as _, opening.server_config(&metrics));
    if opening.serves() {
        serving.start().map_err(thread_error("data server"))?;
    }
    opening.lend_shared_disk(&host);
    let hot_cache = opening.hot_cache(&metrics)?;
    let upkeep = UpkeepThread::start(&host).map_err(thread_error("upkeep"))?;
    let disks = opening.lend(&mut master, &host, (&hostname, &endpoint))?;
    let mounts = Mounts::new(hostname.clone(), endpoint, &opening.config);
    mounts.add_disks(disks);
    let tasks = Arc::new(opening.tasks(&host, &metrics));
    let waking = Arc::clone(&tasks);
    let heartbeat = Heartbeat::start(master, Arc::clone(&condition), move || waking.wake())
        .map_err(thread_error("heartbeat"))?;
    // No step may fail from here on: background threads of a store end only with its session.
    if !host.disks().is_empty() {
        tasks.wake();
    }
    condition.set_open(true);
    let renewal = Arc::new(opening.renewal(&host, &metrics, &routes));
    let session = Session {
        routes,
        renewal,
        upkeep,
        clock: opening.clock,
        mounts,
        seals: opening.seals.clone(),
        pool: opening.pool(opening.config.rpc_timeout, &host, &metrics),
        metrics,
        http,
        paths: opening.paths(&host, opening.config.lanes_per_peer).with_hot_cache(hot_cache),
        call_ms: opening.call_ms(),
        put_wait_ms: u64::try_from(opening.config.put_wait.as_millis()).unwrap_or(u64::MAX),
        ssd_prefetch: opening.config.ssd_prefetch,
        host,
        heartbeat,
        gets: GetSessions::default(),
        puts: PutSessions::default(),
        tasks,
        serving,
        goodbye: opening.goodbye(),
        choices: AtomicU64::new(opening.chance.bits()),
        refusals: LogLimiter::new(),
        condition,
    };
    Ok((session, hostname))
}

impl Opening {
    /// The segments of this process, without object stores and shared disks.
    fn host(&mut self) -> Result<Host, OpenError> {
        let mut disk = self.open_disk()?;
        let client = self.client;
        let host = Host::new(self.map_segment()?);
        if self.client != client {
            disk = disk.map(|disk| self.hand_disk_over(disk)).transpose()?;
        }
        if let Some(disk) = disk {
            host.lend_disk(disk);
        }
        Ok(host)
    }
}

fn thread_error(thread: &'static str) -> impl Fn(std::io::Error) -> OpenError {
    move |error| OpenError::Thread { thread, reason: error.to_string() }
}
