use std::borrow::Cow;

use mooncake_memory::{Place, RawSlice, Region, SliceList};

use crate::copying::Copying;
use crate::device::Device;
use crate::direction::Direction;
use crate::error::CopyError;
use crate::page_locks::{PageLock, lock};
use crate::staging::{STAGING_BYTES, Staging, StagingBuffer};

/// Most bytes that are copied between two calls of `may_go_on`. Two windows are in flight at a time.
const WINDOW_BYTES: usize = 32 << 20;

/// One copy of [`copy_each`].
#[derive(Debug)]
pub struct Job<'a> {
    /// The caller's memory, in the host or in devices.
    pub memory: &'a SliceList<'a>,
    /// As many bytes of host memory.
    pub host: RawSlice<'a>,
    /// The region that contains `host`, whose pages may be locked. Without a region the bytes pass through staging
    /// memory.
    pub region: Option<&'a Region>,
}

/// A part of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    job: usize,
    from: usize,
    len: usize,
}

/// Copies all jobs together, and returns the result of each. Before each window of bytes, calls `may_go_on` with each
/// job in it. If that returns false, the job ends with [`CopyError::Stopped`]. If no job has device memory, all are
/// copied without asking. The destination of a job that did not end well has unspecified bytes.
///
/// # Panics
/// If the lengths of a job's two sides differ.
#[must_use]
pub fn copy_each(
    direction: Direction,
    jobs: &[Job<'_>],
    may_go_on: &dyn Fn(usize) -> bool,
) -> Vec<Result<(), CopyError>> {
    let all: Vec<usize> = (0..jobs.len()).collect();
    let together = run(direction, jobs, &all, may_go_on);
    if let (Err(error), true) = (&together, jobs.len() > 1) {
        // Each job gets its own result, so that one bad job does not fail the others.
        tracing::debug!(%error, jobs = jobs.len(), "copies that failed together are made one by one");
        let one = |&job: &usize| match run(direction, jobs, &[job], may_go_on) {
            Ok(stopped) => {
                if stopped.is_empty() {
                    Ok(())
                } else {
                    Err(CopyError::Stopped)
                }
            }
            Err(error) => Err(error),
        };
        return all.iter().map(one).collect();
    }
    match together {
        Err(error) => vec![Err(error)],
        Ok(stopped) => {
            let of_job =
                |job| if stopped.contains(&job) { Err(CopyError::Stopped) } else { Ok(()) };
            all.into_iter().map(of_job).collect()
        }
    }
}

/// As [`copy_each`], but skips absent jobs. `may_go_on` gets the index of a job in `jobs`.
///
/// # Panics
/// If the lengths of a job's two sides differ.
#[must_use]
pub fn copy_some(
    direction: Direction,
    jobs: Vec<Option<Job<'_>>>,
    may_go_on: &dyn Fn(usize) -> bool,
) -> Vec<Option<Result<(), CopyError>>> {
    let mut results: Vec<_> = jobs.iter().map(|_| None).collect();
    let there = jobs.into_iter().enumerate().filter_map(|(at, job)| Some((at, job?)));
    let (places, jobs): (Vec<usize>, Vec<Job<'_>>) = there.unzip();
    let copied = copy_each(direction, &jobs, &|job| may_go_on(places[job]));
    places.into_iter().zip(copied).for_each(|(at, copied)| results[at] = Some(copied));
    results
}

/// Copies a caller's memory, in the host or in devices, to host memory.
///
/// # Errors
/// The error of the copy. A part may have been copied.
///
/// # Panics
/// If the lengths differ.
pub fn copy_from_caller(memory: &SliceList, host: RawSlice) -> Result<(), CopyError> {
    copy_one(Direction::ToHost, memory, host)
}

/// Copies host memory to a caller's memory, in the host or in devices.
///
/// # Errors
/// The error of the copy. A part may have been copied.
///
/// # Panics
/// If the lengths differ.
pub fn copy_to_caller(host: RawSlice, memory: &SliceList) -> Result<(), CopyError> {
    copy_one(Direction::ToDevice, memory, host)
}

/// Uses no staging memory: callers may already hold some, and would wait for each other if they asked for more.
fn copy_one(direction: Direction, memory: &SliceList, host: RawSlice) -> Result<(), CopyError> {
    Copying::begin(direction, [(memory, host)], false).wait()
}

/// The ordinal of the first device in whose memory the list has a piece.
fn device_of(memory: &SliceList) -> Option<u32> {
    memory.pieces().find_map(|piece| match piece.place() {
        Place::Device(ordinal) => Some(ordinal),
        Place::Host => None,
    })
}

/// Copies the `wanted` jobs, and returns those that were stopped.
fn run(
    direction: Direction,
    jobs: &[Job<'_>],
    wanted: &[usize],
    may_go_on: &dyn Fn(usize) -> bool,
) -> Result<Vec<usize>, CopyError> {
    let Some(ordinal) = wanted.iter().find_map(|&job| device_of(jobs[job].memory)) else {
        let pairs = wanted.iter().map(|&job| (jobs[job].memory, jobs[job].host));
        return Copying::begin(direction, pairs, true).wait().map(|()| Vec::new());
    };
    let device = Device::of(ordinal)?;
    let mut locks: Vec<Option<PageLock>> = jobs.iter().map(|_| None).collect();
    for &job in wanted {
        let Job { host, region, .. } = jobs[job];
        locks[job] = region.and_then(|region| lock(&device, region, host).ok());
    }
    let is_staged = |job: usize| locks[job].is_none();
    let locked_from = |job: usize, from: usize| {
        let lock = locks[job].as_ref()?;
        Some(lock.room_from(jobs[job].host.as_ptr().addr() + from))
    };
    let windows = windows(wanted.iter().map(|&job| (job, jobs[job].host.len())), &locked_from);
    let needs_staging = wanted.iter().any(|&job| is_staged(job));
    let staging = needs_staging.then(|| Staging::of_device(ordinal)).transpose()?;
    let lane = |buffer| Lane::idle(direction, jobs, (staging.as_ref(), buffer));
    let mut lanes = [lane(StagingBuffer::Front), lane(StagingBuffer::Back)];
    let mut stopped = Vec::new();
    for (number, mut window) in windows.into_iter().enumerate() {
        let lane = &mut lanes[number % 2];
        lane.finish()?;
        window.retain(|part| {
            let goes_on = !stopped.contains(&part.job) && may_go_on(part.job);
            if !goes_on && !stopped.contains(&part.job) {
                stopped.push(part.job);
            }
            goes_on
        });
        lane.begin(&window, &is_staged);
    }
    for lane in &mut lanes {
        lane.finish()?;
    }
    Ok(stopped)
}

/// Cuts jobs, given as index and length, into parts, and groups the parts into windows. A window has at most
/// [`WINDOW_BYTES`], of which at most [`STAGING_BYTES`] are staged.
///
/// `locked_from` returns how many bytes of a job from an offset on belong to one page-lock, or `None` if the job is
/// staged. The driver accepts no copy across two page-locks.
fn windows(
    jobs: impl Iterator<Item = (usize, usize)>,
    locked_from: &dyn Fn(usize, usize) -> Option<usize>,
) -> Vec<Vec<Part>> {
    let mut windows: Vec<Vec<Part>> = Vec::new();
    let (mut room, mut staging_room) = (0, 0);
    for (job, total) in jobs {
        let mut from = 0;
        while from < total {
            let locked = locked_from(job, from);
            if room == 0 || (locked.is_none() && staging_room == 0) {
                windows.push(Vec::new());
                (room, staging_room) = (WINDOW_BYTES, STAGING_BYTES);
            }
            let most = room.min(locked.unwrap_or(staging_room));
            let len = most.min(total - from);
            windows.last_mut().expect("one was pushed").push(Part { job, from, len });
            from += len;
            room -= len;
            if locked.is_none() {
                staging_room -= len;
            }
        }
    }
    windows
}

/// One of the two windows in flight.
struct Lane<'a> {
    direction: Direction,
    jobs: &'a [Job<'a>],
    staging: Option<&'a Staging>,
    buffer: StagingBuffer,
    copying: Option<Copying<'a>>,
    /// Copies from the staging buffer to the host, to be made once the device has filled the buffer.
    landing: Vec<(RawSlice<'a>, RawSlice<'a>)>,
}

impl<'a> Lane<'a> {
    fn idle(
        direction: Direction,
        jobs: &'a [Job<'a>],
        (staging, buffer): (Option<&'a Staging>, StagingBuffer),
    ) -> Self {
        Self { direction, jobs, staging, buffer, copying: None, landing: Vec::new() }
    }

    fn begin(&mut self, window: &[Part], is_staged: &dyn Fn(usize) -> bool) {
        let mut used = 0;
        let (mut pairs, mut is_locked) =
            (Vec::<(Cow<'_, SliceList<'a>>, RawSlice<'a>)>::with_capacity(window.len()), true);
        for &Part { job, from, len } in window {
            let Job { memory, host, .. } = self.jobs[job];
            let memory = match len == host.len() {
                true => Cow::Borrowed(memory),
                false => Cow::Owned(memory.part(from as u64, len as u64)),
            };
            let host = host.sub(from, len);
            let Some(staging) = self.staging.filter(|_| is_staged(job)) else {
                pairs.push((memory, host));
                continue;
            };
            let passing = staging.memory(self.buffer).sub(used, len);
            used += len;
            is_locked &= staging.is_locked();
            match self.direction {
                Direction::ToHost => self.landing.push((passing, host)),
                Direction::ToDevice => host.copy_to(passing),
            }
            pairs.push((memory, passing));
        }
        let pairs = pairs.iter().map(|(memory, host)| (&**memory, *host));
        self.copying = Some(Copying::begin(self.direction, pairs, is_locked));
    }

    fn finish(&mut self) -> Result<(), CopyError> {
        if let Some(copying) = self.copying.take() {
            copying.wait()?;
        }
        self.landing.drain(..).for_each(|(passing, host)| passing.copy_to(host));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_hold_so_many_bytes_and_no_more_than_a_buffer_of_staged_ones() {
        let (window, buffer) = (WINDOW_BYTES, STAGING_BYTES);
        let part = |job, from, len| Part { job, from, len };
        let jobs = [(0, 10), (1, window), (2, 0), (3, 1)];
        let locked = windows(jobs.into_iter(), &|_, _| Some(usize::MAX));
        let expected = vec![
            vec![part(0, 0, 10), part(1, 0, window - 10)],
            vec![part(1, window - 10, 10), part(3, 0, 1)],
        ];
        assert_eq!(locked, expected);
        let jobs = [(0, 10), (1, buffer + 5), (2, 100)];
        let mixed = windows(jobs.into_iter(), &|job, _| (job != 1).then_some(usize::MAX));
        let expected = vec![
            vec![part(0, 0, 10), part(1, 0, buffer)],
            vec![part(1, buffer, 5), part(2, 0, 100)],
        ];
        assert_eq!(mixed, expected);
        let apart = windows([(0, 25)].into_iter(), &|_, from| Some(10 - from % 10));
        assert_eq!(apart, [[part(0, 0, 10), part(0, 10, 10), part(0, 20, 5)]]);
    }
}
