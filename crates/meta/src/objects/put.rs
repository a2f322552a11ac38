//! Puts: start, end, revoke, and the discarding of puts that their writers do not end.

use mooncake_types::{
    ClientId, ErrorCode, Grant, PutEnd, PutItem, PutMode, PutRevoke, PutStart, Reply, SoftPin,
    Tick, Version, limits,
};

use super::index::Hashed;
use super::index::check_key;
use super::pin;
use super::record::{Asked, Object, ObjectState, Pin, QueueKind};
use super::upsert::MOST_BESIDE;
use crate::Meta;
use crate::effort::CHANGE;
use crate::placement::Wish;
use crate::segments::AddressTable;
use crate::segments::Pieces;
use crate::slab::NONE;
use crate::tombstones::DropList;

/// The settings that all puts of one request share.
struct PutSettings {
    writer: u32,
    wish: Wish,
    pin: Pin,
    soft_pin: Option<(u64, bool)>,
    data_type: u8,
    mode: PutMode,
    /// Replicas that were asked for.
    replicas: u32,
}

/// How a put has ended with success.
enum Ended {
    /// It became the current version of its key.
    Current,
    /// A newer version became readable before this put ended. The put counts as written and replaced at once.
    Overtaken,
}

impl Meta {
    pub(crate) fn put_start(&mut self, from: ClientId, start: &PutStart<'_>) -> Reply {
        let config = &start.config;
        if !(1..=limits::MAX_REPLICAS).contains(&config.replica_num) {
            return Reply::Refused(ErrorCode::InvalidParams);
        }
        let (pin, soft_pin) = match pin::resolve(&self.config, config.hard_pin, config.soft_pin) {
            Ok(resolved) => resolved,
            Err(code) => return Reply::Refused(code),
        };
        let inherits = start.mode == PutMode::Upsert
            && pin == Pin::None
            && config.soft_pin == SoftPin::Preserve;
        let mut order = PutSettings {
            writer: self.number_of(from),
            wish: self.wish(from, config),
            pin: if inherits { Pin::Inherited } else { pin },
            soft_pin,
            data_type: config.data_type,
            mode: start.mode,
            replicas: config.replica_num,
        };
        let mut table = AddressTable::default();
        let last = start.puts.len().saturating_sub(1);
        let mut results = Vec::with_capacity(start.puts.len());
        for (place, item) in start.puts.iter().enumerate() {
            let grant = self.grant(item, place == last, &order, &mut table);
            if config.same_node
                && let Ok(grant) = &grant
                && let Some(first) = grant.placements.first()
            {
                order.wish.follow(table.slot(first.segment));
            }
            results.push(grant);
        }
        Reply::Granted { results, segments: table.into_addresses() }
    }

    fn grant(
        &mut self,
        item: &PutItem<'_>,
        last: bool,
        order: &PutSettings,
        table: &mut AddressTable,
    ) -> Result<Grant, ErrorCode> {
        check_key(item.key)?;
        let longest = item.group.len().max(item.session.len());
        let named = longest <= limits::MAX_GROUP_BYTES;
        if !(1..=limits::MAX_OBJECT_BYTES).contains(&item.len) || !named {
            return Err(ErrorCode::InvalidParams);
        }
        let key = self.index.hashed(item.key);
        match order.mode {
            PutMode::Insert if self.is_taken(key) => {
                return Err(ErrorCode::ObjectAlreadyExists);
            }
            PutMode::Insert => {}
            PutMode::Upsert => self.admit_upsert(item, key)?,
        }
        let replaced = match order.mode {
            PutMode::Insert => None,
            PutMode::Upsert => self.find(item.key),
        };
        let bytes = item.len.saturating_mul(order.wish.replicas as u64);
        self.admit_put(item.key, bytes, (order.pin == Pin::Hard, replaced))?;
        let replicas = self.place(item.len, &order.wish);
        if replicas.is_empty() && self.is_making_room() {
            self.counters.puts_delayed += 1;
            return Err(ErrorCode::UnavailableInCurrentStatus);
        }
        if replicas.is_empty() {
            self.counters.allocation_failures += 1;
            return Err(ErrorCode::NoAvailableHandle);
        }
        if replicas.len() < order.wish.replicas {
            self.counters.partial_allocations += 1;
        }
        let object = self.insert((item, key.hash), last, order, &replicas);
        let placements =
            self.ranges_of(object).map(|(_, range)| self.placement(range, table)).collect();
        let version = self.objects[object].version;
        let attributes = self.attributes_of(object);
        Ok(Grant { version, placements, attributes, ..Grant::default() })
    }

    /// The object that holds a key, unless it has lost all replicas. Discards a put that has not ended within
    /// `put_discard_ms`.
    pub(super) fn find_holder(&mut self, key: Hashed<'_>) -> Option<u32> {
        loop {
            let object = self.find_living(key)?;
            let record = &self.objects[object];
            let is_young = self.now.since_ms(record.started()) < self.config.put_discard_ms;
            if record.state == ObjectState::Complete || is_young {
                return Some(object);
            }
            self.discard(object);
        }
    }

    /// Whether an insert of this key is refused: its object can be read, or a put of it is running. A finished object
    /// that cannot be read does not count, unless too many puts run beside it.
    fn is_taken(&mut self, key: Hashed<'_>) -> bool {
        let Some(holder) = self.find_holder(key) else { return false };
        let is_hidden =
            self.objects[holder].state == ObjectState::Complete && !self.is_readable(holder);
        !is_hidden
            || self.next_holder(key.key).is_some()
            || self.beside(key.key).len() >= MOST_BESIDE
    }

    fn insert(
        &mut self,
        (item, hash): (&PutItem<'_>, u64),
        last: bool,
        order: &PutSettings,
        replicas: &[Pieces],
    ) -> u32 {
        let version = self.term.next_version();
        // Looked up again: eviction may have taken the object that held the key.
        let holder = self.index.get(&self.objects, Hashed { key: item.key, hash });
        let uses = match holder {
            None => self.recall_evicted((item.key, hash)).map_or(0, |uses| uses + 1),
            Some(holder) => self.class_of(holder).uses(),
        };
        let record = Object {
            key: item.key.into(),
            version,
            len: item.len,
            time: self.now,
            first_range: NONE,
            writer: order.writer,
            group: NONE,
            state: ObjectState::Processing,
            pin: order.pin,
            data_type: order.data_type,
            asked: Asked::new(order.mode, order.replicas),
        };
        let numbered = replicas.iter().enumerate().map(|(number, pieces)| (number, &**pieces));
        let class = self.new_class((item.key, replicas[0][0].segment), hash, uses, last);
        let object = self.insert_object(record, class, numbered);
        match holder {
            None => self.index.insert_hashed(&self.objects, object, hash),
            Some(_) => self.put_beside(object, ObjectState::Waiting),
        }
        match (holder, order.mode) {
            (Some(holder), PutMode::Upsert) => self.join_group_of(object, holder),
            _ => self.join_group(object, item.group),
        }
        self.note_session(object, item.session);
        self.requeue_put(object, QueueKind::Processing);
        if let Some(soft_pin) = order.soft_pin {
            self.note_soft_pin(object, soft_pin);
        }
        object
    }

    /// Ends a put, or repeats how it has ended. In any case it gathers the entries of older versions that nodes may
    /// still hold. A client that repeats its request may not have had all of them dropped.
    pub(crate) fn put_end(
        &mut self,
        writer: u32,
        put: &PutEnd<'_>,
        gathered: &mut DropList,
    ) -> Result<(), ErrorCode> {
        check_key(put.key)?;
        let key = self.index.hashed(put.key);
        let result = self.try_to_end(writer, put, key, gathered);
        let Version { epoch, counter } = put.version;
        // A version that did not become the current one must go like the older ones.
        let below = match result {
            Ok(Ended::Current) => put.version,
            _ => Version { epoch, counter: counter.saturating_add(1) },
        };
        // A put that this leader does not know has not taken the place of an older version that may be reported later.
        if result.is_ok() {
            self.overrule_below(key.hash, put.version);
        }
        self.gather_leased(put.key, gathered);
        self.gather_tombstones(key.hash, Some(below), gathered);
        result.map(|_| ())
    }

    fn try_to_end(
        &mut self,
        writer: u32,
        put: &PutEnd<'_>,
        key: Hashed<'_>,
        gathered: &mut DropList,
    ) -> Result<Ended, ErrorCode> {
        let holder = self.index.get(&self.objects, key);
        let same = holder.filter(|&holder| self.objects[holder].version == put.version);
        if same.is_some_and(|object| self.objects[object].state == ObjectState::Complete) {
            return Ok(Ended::Current);
        }
        let object = match same.or_else(|| self.find_beside(put.key, put.version)) {
            None if self.was_overtaken(holder, put.version) => {
                return Err(ErrorCode::ObjectAlreadyExists);
            }
            found => self.ensure_own(writer, found)?,
        };
        match self.objects[object].state {
            ObjectState::Overtaken => {
                gathered.name_again(key.hash);
                return self.end_overtaken(object).map(|()| Ended::Overtaken);
            }
            ObjectState::Waiting => {
                self.ensure_predecessors_are_dropped(put.key, gathered)?;
                gathered.name_again(key.hash);
            }
            _ => {}
        }
        let lost = put.failed_replicas | self.dead_replicas(object) | self.missed_replicas(object);
        self.requeue_put(object, QueueKind::Out);
        self.reserve_replicas(
            object,
            put.held_replicas & put.failed_replicas,
            self.end_of_readers(),
        );
        if lost != 0 {
            self.free_replicas(object, lost);
        }
        if self.objects[object].first_range == NONE {
            self.drop_object(object);
            gathered.name_again(key.hash);
            return Err(ErrorCode::ObjectNotFound);
        }
        self.complete(object);
        Ok(Ended::Current)
    }

    /// Makes a put readable, and has it replace the object that holds its key.
    fn complete(&mut self, object: u32) {
        self.void_beneath(object);
        if self.objects[object].state == ObjectState::Waiting {
            self.take_key(object);
        }
        let record = self.objects.at_mut(object);
        record.state = ObjectState::Complete;
        record.time = self.now;
        if record.pin == Pin::Inherited {
            record.pin = Pin::None;
        }
        self.count_in_group(object);
        self.begin_soft_pin(object);
        self.learn_use(object, self.class_of(object));
        self.requeue(object, self.queue_after(object, false));
        self.note_replicas(object);
        self.note_predecessors(object);
        self.offload(object);
    }

    /// Refuses to replace a leased object while nodes may still hold leased tombstones of the key. The client has
    /// these dropped and repeats `PutEnd`.
    fn ensure_predecessors_are_dropped(
        &mut self,
        key: &str,
        gathered: &mut DropList,
    ) -> Result<(), ErrorCode> {
        let leased = self.find(key).is_some_and(|holder| self.is_leased(holder));
        // The bytes on unmounted segments are lost, though the record may still have ranges there.
        let is_held = |object: &u32| {
            let mut ranges = self.ranges_of(*object);
            ranges.any(|(_, range)| self.segments[range.segment].is_mounted())
        };
        if leased && self.tombstones.leased().of_key(key).iter().any(is_held) {
            self.gather_leased(key, gathered);
            return Err(ErrorCode::ObjectReplicaBusy);
        }
        Ok(())
    }

    /// Whether a put that has no object any more was overtaken: a newer version of its key can be read.
    fn was_overtaken(&self, holder: Option<u32>, version: Version) -> bool {
        holder.is_some_and(|object| {
            self.objects[object].version > version && self.is_readable(object)
        })
    }

    pub(crate) fn put_revoke(&mut self, writer: u32, put: &PutRevoke<'_>) -> Result<(), ErrorCode> {
        check_key(put.key)?;
        let holder = self.find(put.key);
        let same = holder.filter(|&holder| self.objects[holder].version == put.version);
        let found = same.or_else(|| self.find_beside(put.key, put.version));
        let object = self.ensure_own(writer, found)?;
        if self.objects[object].state == ObjectState::Complete {
            return Err(ErrorCode::InvalidWrite);
        }
        self.requeue_put(object, QueueKind::Out);
        self.reserve_replicas(object, put.held_replicas, self.end_of_readers());
        self.drop_object(object);
        Ok(())
    }

    /// The object of a put, if it exists and the client with this number has put it.
    fn ensure_own(&self, writer: u32, found: Option<u32>) -> Result<u32, ErrorCode> {
        let object = found.ok_or(ErrorCode::ObjectNotFound)?;
        match self.objects[object].writer == writer {
            true => Ok(object),
            false => Err(ErrorCode::IllegalClient),
        }
    }

    /// Discards a put that its writer did not end. Its ranges stay reserved, because the writer may still write
    /// there.
    pub(crate) fn discard(&mut self, object: u32) {
        let until = self.objects[object].started().after_ms(self.config.put_release_ms);
        self.requeue_put(object, QueueKind::Out);
        self.reserve_replicas(object, u32::MAX, until);
        self.drop_object(object);
        self.counters.puts_discarded += 1;
    }

    /// Discards the puts whose time is over, as many as one turn may.
    pub(crate) fn discard_overdue(&mut self) {
        while let Some((due, object)) = self.next_discard()
            && due <= self.now
            && self.effort.spend(CHANGE)
        {
            self.discard(object);
        }
    }

    /// The put that is discarded next, and when.
    pub(crate) fn next_discard(&self) -> Option<(Tick, u32)> {
        let first = self.running.head();
        let object = (first != NONE).then(|| self.ranges[first].object)?;
        Some((self.objects[object].started().after_ms(self.config.put_discard_ms), object))
    }

    /// The running puts, oldest first.
    pub(crate) fn running_puts(&self) -> impl Iterator<Item = u32> {
        self.running.iter(&self.ranges).map(|id| self.ranges[id].object)
    }
}
