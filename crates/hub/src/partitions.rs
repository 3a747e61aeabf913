//! What programs hand over, as sources of a fold: each partition (a source and its dialect) is one, and stays open, so that
//! order within it counts and what it said before is known.

use std::collections::HashMap;

use subscope_fold::{Dialect, Fold, SourceSpec};
use subscope_model::{Millis, SourceId};
use subscope_store::Received;

/// A source by its name, and its dialect; `None` where the content has to tell.
pub(crate) type Partition = (String, Option<Dialect>);

/// The partitions that a fold knows.
#[derive(Default)]
pub(crate) struct Partitions {
    sources: HashMap<Partition, SourceId>,
}

impl Partitions {
    /// Pushes whole lines of a partition. `session` is that of lines that name none.
    pub(crate) fn push(
        &mut self,
        fold: &mut Fold,
        partition: &Partition,
        session: Option<&str>,
        received_ms: Millis,
        body: &[u8],
    ) {
        let known = u32::try_from(self.sources.len()).unwrap_or(u32::MAX);
        let source = *self.sources.entry(partition.clone()).or_insert_with(|| {
            fold.open(SourceSpec {
                label: partition.0.clone(),
                dialect: partition.1,
                // Files number their groups from 0.
                group: u32::MAX - known,
                session: session.map(str::to_owned),
                ..SourceSpec::default()
            })
        });
        fold.receive_at(Some(received_ms));
        fold.push(source, body);
        if partition.1.is_none() {
            // Whole lines are all there is to tell a dialect by: more of them would not tell it better.
            fold.flush(source);
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.sources.len()
    }

    /// Forgets them: the fold that knew them is gone.
    pub(crate) fn clear(&mut self) {
        self.sources.clear();
    }
}

/// Returns the partition that something was received of.
pub(crate) fn partition_of(received: &Received) -> Partition {
    let dialect = Dialect::ALL.into_iter().find(|dialect| dialect.as_str() == received.dialect);
    (received.source.clone(), dialect)
}
