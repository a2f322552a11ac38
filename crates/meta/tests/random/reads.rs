//! Reads and removals, compared with the model.

use mooncake_types::{ClientId, ErrorCode, ScanAction};

use crate::model::{Run, extents};
use crate::sight::replicas;

impl Run {
    pub(crate) fn get(&mut self, key: &str) {
        let result = self.world.get(key);
        match (result, self.model.readable(key)) {
            (Ok(placed), Some(object)) => {
                assert_eq!(placed.what.version, object.version);
                let expected = self.model.replicas_in_sight(object);
                let named = extents(&placed.what.placements, &placed.segments);
                let all = named == expected.concat();
                assert!(all || self.leaves_out_drained(&named, &expected), "{key}");
                self.model.lease(key, self.world.now, self.config.lease_ttl_ms);
            }
            (Err(ErrorCode::ReplicaIsNotReady), None) => {
                assert!(self.model.waiting(key).is_some(), "{key} is free");
            }
            (Err(ErrorCode::ObjectNotFound), None) => {
                assert!(self.model.waiting(key).is_none(), "{key} is being written");
            }
            (result, object) => panic!("{key}: {result:?}, but {object:?}"),
        }
    }

    pub(crate) fn exist(&mut self, key: &str) {
        let found = self.world.exist(key);
        assert_eq!(found, self.model.readable(key).is_some(), "{key}");
        if found {
            self.model.lease(key, self.world.now, self.config.lease_ttl_ms);
        }
    }

    pub(crate) fn remove(&mut self, key: &str, force: bool) {
        let result = self.world.remove(key, force);
        let now = self.world.now;
        let expected = match self.model.objects.get(key) {
            None if self.model.waiting(key).is_some() => Err(ErrorCode::ReplicaIsNotReady),
            None => Err(ErrorCode::ObjectNotFound),
            Some(object) if object.leased_until > now && !force => Err(ErrorCode::ObjectHasLease),
            Some(object)
                if object.spared_until > now
                    && result == Err(ErrorCode::ObjectHasLease)
                    && !force =>
            {
                result
            }
            Some(_) if self.model.has_task(key) => Err(ErrorCode::ObjectHasReplicationTask),
            Some(_) => Ok(()),
        };
        assert_eq!(result, expected, "{key}");
        if result.is_ok() {
            self.model.objects.remove(key);
        }
    }

    pub(crate) fn remove_all(&mut self, force: bool) {
        let page = self.world.scan(None, ScanAction::Remove { force }, 3).expect("no pattern");
        let now = self.world.now;
        let before = self.model.objects.len();
        let keys: Vec<String> = self.model.objects.keys().cloned().collect();
        for key in keys {
            let object = &self.model.objects[&key];
            let stays = (object.leased_until > now && !force) || self.model.has_task(&key);
            let there = self.world.holds(&key);
            let may_stay = !force && object.spared_until > now;
            assert!(there == stays || (there && may_stay), "{key}: {object:?}");
            if !there {
                self.model.objects.remove(&key);
            }
        }
        assert_eq!(page.removed as usize, before - self.model.objects.len());
    }

    pub(crate) fn clear(&mut self, client: ClientId, key: &str, nth: Option<u64>) {
        let segments = self.world.meta.segments();
        let named = nth.and_then(|nth| segments.get(nth as usize % segments.len().max(1)));
        let name = named.map_or("", |segment| &segment.name);
        let result = self.world.clear(client, key, name);
        let now = self.world.now;
        let Some(object) = self.model.objects.get_mut(key) else {
            let running = self.model.waiting(key).map(|put| put.writer);
            match result {
                Err(ErrorCode::ObjectNotFound) => assert_eq!(running, None),
                Err(ErrorCode::ReplicaIsNotReady) => assert_eq!(running, Some(client)),
                Err(ErrorCode::IllegalClient) => assert!(running.is_some()),
                result => panic!("{key}: {result:?}"),
            }
            return;
        };
        let ttl_ms = self.config.lease_ttl_ms;
        let read = object.spared_until.max(object.ended);
        match result {
            Ok(()) => {
                assert!(object.writer == client && object.leased_until <= now, "{object:?}");
                let there = |id| named.is_none_or(|segment| segment.id == id);
                let kept = replicas(object).into_iter();
                let kept = kept.filter(|replica| !replica.iter().any(|extent| there(extent.0)));
                object.extents = kept.flatten().collect();
                let gone = !self.world.holds(key);
                assert!(!gone || named.is_some() || object.extents.is_empty());
                if gone {
                    self.model.objects.remove(key);
                }
                self.meet("replicas were cleared");
            }
            // A client that was declared dead returns as another client.
            Err(ErrorCode::IllegalClient) => {}
            Err(ErrorCode::ObjectHasLease) => {
                assert!(read.after_ms(ttl_ms) > now, "{object:?} is old");
            }
            Err(ErrorCode::ReplicaNotFound) => {
                let there =
                    object.extents.iter().any(|extent| Some(extent.0) == named.map(|s| s.id));
                assert!(named.is_some() && !there, "{object:?}");
            }
            Err(ErrorCode::ObjectHasReplicationTask) => {
                assert!(self.model.tasks.iter().any(|task| task.key == key));
            }
            Err(other) => panic!("{other}"),
        }
    }
}
