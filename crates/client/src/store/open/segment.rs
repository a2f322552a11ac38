use std::path::Path;
use std::time::{Duration, Instant};

use mooncake_memory::{
    NamedSegment, NamedSegmentError, NamedSegmentOptions, Region, SegmentOrigin,
};
use mooncake_node::Segment;
use mooncake_types::SegmentId;

use super::opening::Opening;
use crate::open_error::OpenError;
use crate::random::random;
use crate::store::segment_warnings;

/// Longest wait for another process to release the segment's file: a killed process takes a while to end.
const FILE_PATIENCE: Duration = Duration::from_secs(5);

impl Opening {
    pub(super) fn map_segment(&mut self) -> Result<Vec<Segment>, OpenError> {
        if !self.serves() {
            return Ok(Vec::new());
        }
        let id = SegmentId(random()?);
        if let Some(path) = self.config.segment_path.clone() {
            let named = self.named_segment(&path, id);
            return named.map(|segment| vec![segment]).map_err(|error| OpenError::NamedSegment {
                path: path.display().to_string(),
                error,
            });
        }
        let bytes = self.config.segment_bytes;
        segment_warnings::check_size(bytes);
        let region = Region::anonymous(bytes)
            .map_err(|error| OpenError::Map { bytes, reason: error.to_string() })?;
        let segment = Segment::new(id, region.emptied_at_end());
        Ok(vec![segment.verifying(self.config.verify_reads)])
    }

    /// Opens the segment's file. This process takes over the client id in it, by which the master knows the owner of
    /// the file.
    fn named_segment(
        &mut self,
        path: &Path,
        new_id: SegmentId,
    ) -> Result<Segment, NamedSegmentError> {
        let begun = Instant::now();
        let named = NamedSegment::open(&NamedSegmentOptions {
            path: path.to_owned(),
            len: self.config.segment_bytes,
            cluster_id: self.config.cluster_id.clone(),
            segment: new_id,
            client: self.client,
            reset: self.config.segment_reset,
            patience: FILE_PATIENCE,
        })?;
        match named.is_in_memory {
            true => segment_warnings::check_size(self.config.segment_bytes),
            false => segment_warnings::warn_of_disk(path),
        }
        let (path, past) = (path.display(), named.past);
        self.client = named.client;
        let segment = Segment::named(new_id, named)?.verifying(self.config.verify_reads);
        match past {
            SegmentOrigin::None => {
                tracing::info!(%path, segment = %segment.id(), "a named segment is made");
            }
            SegmentOrigin::EarlierRun => tracing::warn!(
                %path,
                "the segment file was written before this machine started: the segment begins empty"
            ),
            SegmentOrigin::Kept => {
                let (objects, bytes) = segment.complete_entries();
                let took_ms = begun.elapsed().as_millis() as u64;
                let segment = segment.id();
                tracing::info!(%path, %segment, objects, bytes, took_ms, "a named segment is lent again");
            }
        }
        Ok(segment)
    }
}
