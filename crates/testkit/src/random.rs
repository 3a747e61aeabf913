//! Deterministic random numbers, equal on every platform and for ever.

/// SplitMix64 (Steele, Lea, Flood 2014): small, fast, and good enough for made-up sessions.
#[derive(Clone, Debug)]
pub struct Random(u64);

/// What base58 leaves of letters and digits; the harness's ids look like it.
const LETTERS: &[u8; 57] = b"ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789";

impl Random {
    /// Begins at a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    #[expect(clippy::should_implement_trait, reason = "numbers without an end are no iterator's")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`; 0 where `limit` is 0. The small bias of the method does not matter here.
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// One of these, which must not be empty.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    /// A UUID of version 4.
    pub fn uuid(&mut self) -> String {
        let (high, low) = (self.next(), self.next());
        format!(
            "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xfff,
            0x8000 | (low >> 48) & 0x3fff,
            low & 0xffff_ffff_ffff
        )
    }

    /// `prefix` and 22 letters and digits.
    pub fn id(&mut self, prefix: &str) -> String {
        let mut id = String::with_capacity(prefix.len() + 22);
        id.push_str(prefix);
        for _ in 0..2 {
            // 11 letters use 64 of the 64.2 bits of one number.
            let mut bits = self.next();
            for _ in 0..11 {
                id.push(char::from(LETTERS[(bits % 57) as usize]));
                bits /= 57;
            }
        }
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_gives_same_ids_in_the_expected_shape() {
        let (mut one, mut two) = (Random::new(7), Random::new(7));
        let uuid = one.uuid();
        assert_eq!(uuid, two.uuid());
        assert_eq!((uuid.len(), &uuid[14..15]), (36, "4"));
        let id = one.id("toolu_01");
        assert_eq!(id, two.id("toolu_01"));
        assert_eq!(id.len(), 30);
        assert!((0..1000).all(|_| (3..=5).contains(&one.between(3, 5)) && one.below(0) == 0));
    }
}
