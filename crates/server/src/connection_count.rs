//! Who is there: a hub that nobody needs may leave.

use std::sync::{
    Arc,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

/// Tells whether anybody is connected or follows a live feed, or did. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct ConnectionCount(Arc<Count>);

#[derive(Debug, Default)]
struct Count {
    now: AtomicUsize,
    ever: AtomicU64,
}

/// A connection or a feed, as long as it lives.
pub(crate) struct Guest(Arc<Count>);

impl ConnectionCount {
    /// How many connections and feeds are open.
    pub fn now(&self) -> usize {
        self.0.now.load(Ordering::Acquire)
    }

    /// How many there were since the server began, those that are open too.
    pub fn ever(&self) -> u64 {
        self.0.ever.load(Ordering::Acquire)
    }

    pub(crate) fn enter(&self) -> Guest {
        self.0.now.fetch_add(1, Ordering::AcqRel);
        self.0.ever.fetch_add(1, Ordering::AcqRel);
        Guest(Arc::clone(&self.0))
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::AcqRel);
    }
}
