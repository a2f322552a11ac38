//! Making room: a file is retired, and the records in it that are worth keeping move to the end of the log.

use std::sync::{Arc, PoisonError};

use crate::block_buffer::BlockBuffer;
use crate::contents::FoundRecord;
use crate::errors::{Broken, PutError, is_of_space};
use crate::index::RecordState;
use crate::layout::BLOCK;
use crate::log_file::LogFile;
use crate::log_store::{Log, LogStore, Room};
use crate::record::RecordId;
use crate::store::RecordStore;

/// Fewest files in a log: one takes records, and another can be retired.
pub(crate) const MIN_FILES: u64 = 4;
/// A file with fewer live quarters than this is retired for its holes, and its records move. The node lends at most
/// four fifths of a log, so a log usually has a file like that. Records are then evicted only where headers and
/// padding take much of the room.
const HOLLOW_QUARTERS: u64 = 3;

impl LogStore {
    /// Retires files until there is room for `wanted` more bytes of records. Returns the names of the records that it
    /// evicted.
    ///
    /// Records that were read since they were written move to another file, as far as there is room. So do all records
    /// of a mostly empty file.
    pub(crate) fn retire_files(&self, wanted: u64) -> Result<Vec<RecordId>, Broken> {
        let _cleaning = self.cleaning.lock().unwrap_or_else(PoisonError::into_inner);
        let files = wanted.div_ceil(self.longest_record());
        let kept_free = files.saturating_add(1).saturating_mul(self.config.file_bytes);
        let mut goal = self.config.capacity.saturating_sub(kept_free);
        if let Some(full) = self.lock().bytes_when_full.take() {
            // Other programs have filled the disk: retire one file for each new file.
            goal = goal.min(full.saturating_sub(files.saturating_mul(self.config.file_bytes)));
        }
        // If a file cannot be removed now, the next drop tries again.
        self.sweep()?;
        let mut evicted = std::mem::take(&mut self.lock().evicted);
        loop {
            let victim = {
                let mut log = self.lock();
                log.check()?;
                if log.used_bytes() <= goal { None } else { pick(&mut log) }
            };
            let Some((file, is_hollow)) = victim else { break };
            evicted.extend(self.retire_file(file, is_hollow)?);
        }
        // A record that moved may have gone with the file that it moved to.
        evicted.append(&mut self.lock().evicted);
        Ok(evicted)
    }

    /// Retires a sealed file. Returns the names of the records that were evicted with it.
    fn retire_file(&self, file: Arc<LogFile>, is_hollow: bool) -> Result<Vec<RecordId>, Broken> {
        let number = file.head.number;
        let records = file.records(&self.faults).unwrap_or_else(|error| {
            tracing::warn!(number, %error, "the records of a file cannot be found: they go with it");
            Vec::new()
        });
        let (moving, leaving) = self.sort_out(number, &records, is_hollow);
        let mut moved = Vec::new();
        let mut evicted = leaving.clone();
        for name in moving {
            match self.move_record(name, &file)? {
                Some(place) => moved.push((name, place)),
                None => evicted.push(name),
            }
        }
        // From here on only the moved copies count: a caller that waits to drop a record drops its copy.
        let is_retired = match file.retire() {
            Err(error) if is_of_space(&error) => false,
            retired => retired.map(|()| true).map_err(|error| self.fail(&error))?,
        };
        // A new file takes this one over only if no thread holds it.
        drop(file);
        let mut log = self.lock();
        let retired = log.files.remove(&number).expect("one call at a time retires files").file;
        let is_spare = is_retired && retired.head.file_bytes == self.config.file_bytes;
        let unwanted = match is_spare {
            true => log.spare.replace(retired).map(|older| older.head.number),
            false => Some(number),
        };
        log.unwanted.extend(unwanted);
        for (name, (file, block)) in moved {
            if !log.files.contains_key(&file) {
                log.evicted.push(name);
                log.index.remove(&name);
                continue;
            }
            let entry = log.index.get_mut(&name).expect("what moves stays in the index");
            (entry.file, entry.block) = (file, block);
            (entry.state, entry.was_read) = (RecordState::Ready, false);
        }
        for name in &evicted {
            log.index.remove(name);
        }
        drop(log);
        self.changed.notify_all();
        self.sweep()?;
        Ok(evicted)
    }

    /// Marks the records of a file as moving or leaving, and returns the names of both.
    fn sort_out(
        &self,
        number: u64,
        records: &[FoundRecord],
        is_hollow: bool,
    ) -> (Vec<RecordId>, Vec<RecordId>) {
        let mut log = self.lock();
        // A nearly full file must lose a quarter of its records, or retiring it gains no room.
        let mut left = self.config.file_bytes / 4 * HOLLOW_QUARTERS;
        let mut live_bytes = log.files[&number].live_bytes;
        let (mut moving, mut leaving) = (Vec::new(), Vec::new());
        for FoundRecord { block, record } in records {
            let name = record.name;
            let Some(entry) = log.index.get_mut(&name) else { continue };
            // After a drop the same name may have been put again elsewhere.
            let is_here = (entry.file, u64::from(entry.block)) == (number, *block);
            if !is_here || entry.state != RecordState::Ready {
                continue;
            }
            live_bytes -= entry.bytes();
            let stays = (is_hollow || entry.was_read) && entry.bytes() <= left;
            if stays {
                left -= entry.bytes();
                moving.push(name);
            } else {
                leaving.push(name);
            }
            entry.state = if stays { RecordState::Moving } else { RecordState::Unreadable };
        }
        if live_bytes > 0 {
            // The disk has lost the headers of the remaining records. They are evicted with the file.
            for (&name, entry) in &mut log.index {
                if entry.file == number && entry.state == RecordState::Ready {
                    entry.state = RecordState::Unreadable;
                    leaving.push(name);
                }
            }
        }
        (moving, leaving)
    }

    /// Copies a record to the end of the log. Returns `None` if the record is damaged or there is no room.
    fn move_record(&self, name: RecordId, from: &LogFile) -> Result<Option<(u64, u32)>, Broken> {
        let entry = self.lock().index[&name];
        let Ok(buffer) = BlockBuffer::zeroed(entry.len as usize) else { return Ok(None) };
        let stored = from.stored(u64::from(entry.block), entry.header_len, entry.len);
        let Ok(Some(record)) = stored.header(buffer.raw()) else { return Ok(None) };
        if record.name != name || buffer.raw().chunk_crcs() != *record.checksums {
            return Ok(None);
        }
        let mut place = None;
        let note = |_: &mut Log, room: &Room| {
            place = Some((room.file.head.number, room.block as u32));
        };
        match self.append(&record, &[buffer.raw()], self.config.capacity, note) {
            Err(PutError::Broken(broken)) => Err(broken),
            _ => Ok(place),
        }
    }
}

/// Picks the file to retire: the emptiest of the mostly empty files (then true), otherwise the oldest file. From here on
/// no other thread gives it up.
fn pick(log: &mut Log) -> Option<(Arc<LogFile>, bool)> {
    let is_idle = |number: &u64| log.open != Some(*number);
    let idle = || log.files.iter().filter(|(number, file)| is_idle(number) && file.is_sealed);
    let hollow =
        idle().filter(|(_, file)| file.live_bytes < file.next_block * BLOCK / 4 * HOLLOW_QUARTERS);
    let hollowest = hollow.min_by_key(|(_, file)| file.live_bytes);
    let picked = hollowest.map(|(&number, _)| (number, true));
    let picked = picked.or_else(|| idle().next().map(|(&number, _)| (number, false)));
    let (number, is_hollow) = picked?;
    let file = log.files.get_mut(&number)?;
    file.is_leaving = true;
    Some((Arc::clone(&file.file), is_hollow))
}
