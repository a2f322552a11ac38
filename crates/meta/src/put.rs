//! Putting: start, end, revoke, and puts that nobody ends.

use mooncake_types::{
    ClientId, ErrorCode, Grant, KeyVersion, PutEnd, PutItem, PutStart, Reply, Version, limits,
};

use crate::Meta;
use crate::meta::check_key;
use crate::pin;
use crate::place::{Piece, Wish};
use crate::record::{Object, ObjectState, Pin, QueueKind, Range};
use crate::reply::AddressTable;
use crate::slab::NONE;

/// What all puts of one request share.
struct Order {
    writer: u32,
    wish: Wish,
    pin: Pin,
    soft_pin: Option<(u64, bool)>,
    data_type: u8,
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
        let order = Order {
            writer: self.number_of(from),
            wish: self.wish(config),
            pin,
            soft_pin,
            data_type: config.data_type,
        };
        let mut table = AddressTable::default();
        let grant = |item| self.grant(item, &order, &mut table);
        let results = start.puts.iter().map(grant).collect();
        Reply::Granted { results, segments: table.into_addresses() }
    }

    fn grant(
        &mut self,
        item: &PutItem<'_>,
        order: &Order,
        table: &mut AddressTable,
    ) -> Result<Grant, ErrorCode> {
        check_key(item.key)?;
        if !(1..=limits::MAX_OBJECT_BYTES).contains(&item.len) {
            return Err(ErrorCode::InvalidParams);
        }
        self.free_the_key(item.key)?;
        let replicas = self.place(item.len, &order.wish);
        if replicas.is_empty() {
            self.counters.allocation_failures += 1;
            return Err(ErrorCode::NoAvailableHandle);
        }
        if replicas.len() < order.wish.replicas {
            self.counters.partial_allocations += 1;
        }
        let object = self.insert(item, order, &replicas);
        let placements =
            self.ranges_of(object).map(|(_, range)| self.placement(range, table)).collect();
        Ok(Grant { version: self.objects[object].version, placements })
    }

    /// A key is taken by a readable object or by a put that is young. What holds it otherwise goes.
    fn free_the_key(&mut self, key: &str) -> Result<(), ErrorCode> {
        let Some(object) = self.find(key) else { return Ok(()) };
        let record = &self.objects[object];
        match record.state {
            ObjectState::Complete if self.is_readable(object) => {
                Err(ErrorCode::ObjectAlreadyExists)
            }
            ObjectState::Complete => {
                self.drop_lost(object);
                Ok(())
            }
            ObjectState::Processing | ObjectState::Discarded => {
                if self.now.since_ms(record.touched) < self.config.put_discard_ms {
                    return Err(ErrorCode::ObjectAlreadyExists);
                }
                self.discard(object);
                Ok(())
            }
        }
    }

    fn insert(&mut self, item: &PutItem<'_>, order: &Order, replicas: &[Vec<Piece>]) -> u32 {
        let version = self.next_version();
        let object = self.objects.insert(Object {
            key: item.key.into(),
            version,
            len: item.len,
            touched: self.now,
            first_range: NONE,
            writer: order.writer,
            state: ObjectState::Processing,
            pin: order.pin,
            data_type: order.data_type,
        });
        let mut sibling = NONE;
        for (replica, pieces) in replicas.iter().enumerate().rev() {
            for piece in pieces.iter().rev() {
                sibling = self.ranges.insert(Range {
                    len: piece.len,
                    object,
                    segment: piece.segment,
                    handle: piece.handle,
                    sibling,
                    prev: NONE,
                    next: NONE,
                    replica: replica as u8,
                    queue: QueueKind::Out,
                });
            }
        }
        self.objects[object].first_range = sibling;
        self.index.insert(&self.objects, object);
        self.requeue_put(object, QueueKind::Processing);
        if let Some(soft_pin) = order.soft_pin {
            self.note_soft_pin(object, soft_pin);
        }
        object
    }

    pub(crate) fn put_end(&mut self, from: ClientId, put: &PutEnd<'_>) -> Result<(), ErrorCode> {
        let object = self.own_put(from, put.key, put.version)?;
        if self.objects[object].state == ObjectState::Complete {
            return Ok(());
        }
        let lost = put.failed_replicas | self.dead_replicas(object);
        self.requeue_put(object, QueueKind::Out);
        self.free_replicas(object, lost);
        if self.objects[object].first_range == NONE {
            self.drop_object(object);
            return Err(ErrorCode::ObjectNotFound);
        }
        let record = &mut self.objects[object];
        record.state = ObjectState::Complete;
        record.touched = self.now;
        self.begin_soft_pin(object);
        self.requeue(object, self.queue_after(object, false));
        Ok(())
    }

    pub(crate) fn put_revoke(
        &mut self,
        from: ClientId,
        put: &KeyVersion<'_>,
    ) -> Result<(), ErrorCode> {
        let object = self.own_put(from, put.key, put.version)?;
        if self.objects[object].state == ObjectState::Complete {
            return Err(ErrorCode::InvalidWrite);
        }
        self.requeue_put(object, QueueKind::Out);
        self.drop_object(object);
        Ok(())
    }

    /// The object of a put, if it is still this put of this client.
    fn own_put(&self, from: ClientId, key: &str, version: Version) -> Result<u32, ErrorCode> {
        check_key(key)?;
        let object = self.find(key).ok_or(ErrorCode::ObjectNotFound)?;
        let record = &self.objects[object];
        if record.version != version {
            return Err(ErrorCode::ObjectNotFound);
        }
        if record.writer != self.number_of(from) {
            return Err(ErrorCode::IllegalClient);
        }
        Ok(object)
    }

    /// Takes the key from a put that nobody ended. Its ranges stay reserved: its writer may still be at work.
    pub(crate) fn discard(&mut self, object: u32) {
        self.index.remove(&self.objects, object);
        self.objects[object].state = ObjectState::Discarded;
        self.forget_soft_pin(object);
        self.requeue_put(object, QueueKind::Releasing);
        self.releasing_bytes += self.ranges_of(object).map(|(_, range)| range.len).sum::<u64>();
        self.counters.puts_discarded += 1;
    }

    /// Frees the ranges of a discarded put.
    pub(crate) fn release(&mut self, object: u32) {
        self.releasing_bytes -= self.ranges_of(object).map(|(_, range)| range.len).sum::<u64>();
        self.requeue_put(object, QueueKind::Out);
        self.drop_object(object);
        self.counters.puts_released += 1;
    }
}
