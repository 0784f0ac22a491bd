//! A file's contents, live and durable, page by page. Pages never written read as zeros and take no space.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use simulation_hooks::Random;

use super::PowerLoss;

/// What the kernel writes back as one.
const PAGE: usize = 4096;
/// What a device writes whole or not at all.
const SECTOR: usize = 512;

/// One page of a file, shared by its live and its durable contents while they agree.
type Page = Arc<[u8; PAGE]>;

/// The page that files preallocated with zeros share.
static ZEROS: LazyLock<Page> = LazyLock::new(|| Arc::new([0; PAGE]));

/// A file's contents.
#[derive(Debug, Default)]
pub(super) struct Contents {
    live: Version,
    durable: Version,
    /// Pages written since they were last synced, with the count of writes at the last of them.
    dirty: BTreeMap<u64, u64>,
    writes: u64,
}

#[derive(Clone, Debug, Default)]
struct Version {
    len: u64,
    /// Pages from the start of the file whose space was claimed, written or not.
    claimed: u64,
    pages: BTreeMap<u64, Page>,
}

/// What was dirty when a sync began.
#[derive(Debug)]
pub(super) struct Dirty {
    len: u64,
    claimed: u64,
    pages: BTreeMap<u64, Option<Page>>,
    /// Writes counted so far.
    writes: u64,
}

impl Contents {
    pub(super) const fn len(&self) -> u64 {
        self.live.len
    }

    /// Bytes that its pages take.
    pub(super) fn allocated(&self) -> u64 {
        let past_claim = self.live.pages.range(self.live.claimed..).count() as u64;
        self.live.claimed.saturating_add(past_claim).saturating_mul(PAGE as u64)
    }

    pub(super) fn would_allocate(&self, offset: u64, len: usize) -> u64 {
        let is_new = |page: &u64| *page >= self.live.claimed && !self.live.pages.contains_key(page);
        let new = pages_of(offset, len).filter(is_new).count();
        (new as u64).saturating_mul(PAGE as u64)
    }

    pub(super) fn read(&self, offset: u64, len: usize) -> Bytes {
        let end = offset.saturating_add(len as u64).min(self.live.len);
        let len = usize::try_from(end.saturating_sub(offset)).unwrap_or(0);
        // Claimed space is mostly zeros, which an allocation of zeros has without being touched.
        let mut read = vec![0; len];
        let pages = pages_of(offset, len);
        for (page, bytes) in self.live.pages.range(pages) {
            if Arc::ptr_eq(bytes, &ZEROS) {
                continue;
            }
            let (from, to) = within(*page, offset, end);
            let at = page.saturating_mul(PAGE as u64).saturating_add(from as u64).saturating_sub(offset);
            let at = usize::try_from(at).unwrap_or(usize::MAX);
            if let (Some(target), Some(source)) =
                (read.get_mut(at..at.saturating_add(to - from)), bytes.get(from..to))
            {
                target.copy_from_slice(source);
            }
        }
        read.into()
    }

    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        let end = offset.saturating_add(bytes.len() as u64);
        let mut rest = bytes;
        for page in pages_of(offset, bytes.len()) {
            let (from, to) = within(page, offset, end);
            let (now, later) = rest.split_at_checked(to - from).unwrap_or((rest, &[]));
            rest = later;
            let live = self.live.pages.entry(page).or_insert_with(|| Arc::clone(&ZEROS));
            if now == &ZEROS[..] {
                *live = Arc::clone(&ZEROS);
            } else if let Some(target) = Arc::make_mut(live).get_mut(from..to) {
                target.copy_from_slice(now);
            }
            self.touch(page);
        }
        self.live.len = self.live.len.max(end);
    }

    pub(super) fn set_len(&mut self, len: u64) {
        let kept = len.div_ceil(PAGE as u64);
        for page in self.live.pages.split_off(&kept).into_keys() {
            self.touch(page);
        }
        let in_last = usize::try_from(len % PAGE as u64).unwrap_or(0);
        let last = len / PAGE as u64;
        if in_last > 0
            && len < self.live.len
            && let Some(page) = self.live.pages.get_mut(&last)
        {
            if let Some(cut) = Arc::make_mut(page).get_mut(in_last..) {
                cut.fill(0);
            }
            self.touch(last);
        }
        self.live.len = len;
        self.live.claimed = self.live.claimed.min(kept);
    }

    /// Bytes that claiming `len` bytes would take.
    pub(super) fn would_claim(&self, len: u64) -> u64 {
        let claimed = len.div_ceil(PAGE as u64);
        let written = self.live.pages.range(self.live.claimed..claimed.max(self.live.claimed)).count() as u64;
        claimed.saturating_sub(self.live.claimed).saturating_sub(written).saturating_mul(PAGE as u64)
    }

    pub(super) fn claim(&mut self, len: u64) {
        self.live.claimed = self.live.claimed.max(len.div_ceil(PAGE as u64));
        self.live.len = self.live.len.max(len);
    }

    /// What a sync that begins now has to write.
    pub(super) fn dirty(&self) -> Dirty {
        let pages = self.dirty.keys().map(|page| (*page, self.live.pages.get(page).cloned())).collect();
        Dirty { len: self.live.len, claimed: self.live.claimed, pages, writes: self.writes }
    }

    pub(super) fn make_durable(&mut self, began: Dirty) {
        self.forget_dirty(&began);
        for (page, bytes) in began.pages {
            put(&mut self.durable.pages, page, bytes);
        }
        self.durable.len = began.len;
        self.durable.claimed = began.claimed;
    }

    /// Takes for clean what was dirty when a sync began, unless it was written again since.
    pub(super) fn forget_dirty(&mut self, began: &Dirty) {
        self.dirty.retain(|page, written| !began.pages.contains_key(page) || *written > began.writes);
    }

    pub(super) fn power_off(&mut self, loss: PowerLoss, random: &mut Random) {
        if loss == PowerLoss::Torn {
            for page in self.dirty.keys() {
                let live = self.live.pages.get(page);
                let durable = self.durable.pages.get(page);
                let survived = tear(live, durable, random);
                put(&mut self.durable.pages, *page, survived);
            }
            if self.live.len != self.durable.len && random.chance(500_000) {
                self.durable.len = self.live.len;
            }
            let kept = self.durable.len.div_ceil(PAGE as u64);
            drop(self.durable.pages.split_off(&kept));
            self.durable.claimed = self.durable.claimed.min(kept);
        }
        self.dirty.clear();
        self.live = self.durable.clone();
    }

    fn touch(&mut self, page: u64) {
        self.writes += 1;
        self.dirty.insert(page, self.writes);
    }
}

fn put(pages: &mut BTreeMap<u64, Page>, page: u64, bytes: Option<Page>) {
    match bytes {
        Some(bytes) => drop(pages.insert(page, bytes)),
        None => drop(pages.remove(&page)),
    }
}

/// What a page holds after the power went while it was being written.
fn tear(live: Option<&Page>, durable: Option<&Page>, random: &mut Random) -> Option<Page> {
    match random.below(3) {
        0 => live.cloned(),
        1 => durable.cloned(),
        _ => {
            let whole = usize::try_from(random.below((PAGE / SECTOR) as u64)).unwrap_or(0) * SECTOR;
            let mut torn = durable.map_or([0; PAGE], |page| **page);
            let written = live.map_or([0; PAGE], |page| **page);
            for (to, from) in torn.iter_mut().zip(written).take(whole) {
                *to = from;
            }
            Some(Arc::new(torn))
        }
    }
}

/// The pages that `len` bytes at `offset` touch.
fn pages_of(offset: u64, len: usize) -> Range<u64> {
    let page = PAGE as u64;
    let end = offset.saturating_add(len as u64);
    offset / page..if len == 0 { offset / page } else { end.div_ceil(page) }
}

/// Where in `page` the bytes from `start` to `end` of the file lie.
fn within(page: u64, start: u64, end: u64) -> (usize, usize) {
    let first = page.saturating_mul(PAGE as u64);
    let from = start.saturating_sub(first).min(PAGE as u64);
    let to = end.saturating_sub(first).min(PAGE as u64);
    (usize::try_from(from).unwrap_or(PAGE), usize::try_from(to).unwrap_or(PAGE))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn synced(bytes: &[u8]) -> Contents {
        let mut file = Contents::default();
        file.write(0, bytes);
        let began = file.dirty();
        file.make_durable(began);
        file
    }

    #[test]
    fn power_loss_takes_back_what_was_not_synced_length_included() {
        let mut file = synced(&[1; 5000]);
        file.write(4090, &[2; 2000]);
        assert_eq!(file.len(), 6090);
        assert_eq!(file.read(4089, 3)[..], [1, 2, 2]);
        file.power_off(PowerLoss::Unsynced, &mut Random::new(1));
        assert_eq!(file.read(0, 10_000)[..], [1; 5000]);

        file.set_len(4);
        file.set_len(8);
        assert_eq!(file.read(0, 100)[..], [1, 1, 1, 1, 0, 0, 0, 0]);
        file.power_off(PowerLoss::Unsynced, &mut Random::new(1));
        assert_eq!(file.read(0, 10_000)[..], [1; 5000]);
    }

    #[test]
    fn a_sync_covers_what_was_written_before_it_began() {
        let mut file = synced(&[0; 100]);
        file.write(0, b"before");
        let began = file.dirty();
        file.write(0, b"during");
        file.make_durable(began);
        file.power_off(PowerLoss::Unsynced, &mut Random::new(1));
        assert_eq!(file.read(0, 6), "before");
    }

    #[test]
    fn a_torn_page_breaks_between_sectors() {
        let mut seen_torn = false;
        for seed in 0..50 {
            let mut file = synced(&[1; PAGE]);
            file.write(0, &[2; PAGE]);
            file.power_off(PowerLoss::Torn, &mut Random::new(seed));
            let bytes = file.read(0, PAGE);
            let new = bytes.iter().take_while(|byte| **byte == 2).count();
            assert!(bytes[new..].iter().all(|byte| *byte == 1));
            assert_eq!(new % SECTOR, 0);
            seen_torn |= new > 0 && new < PAGE;
        }
        assert!(seen_torn);
    }
}
