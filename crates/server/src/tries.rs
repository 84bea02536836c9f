//! Counts invalid credentials, by the address they came from and by the credential.
//!
//! A valid credential is always accepted, whatever others try from its address, because many workers may share one
//! address. So an address that has tried too often is not blocked; it only receives 429 instead of 401. A credential
//! that keeps failing is no longer looked up until it has not been tried for a while.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How many addresses, and how many credentials, one generation remembers. There are two generations.
const REMEMBERED: usize = 10_000;
/// A single credential may fail this many times less often than an address, because an address may be many machines.
const CREDENTIAL_SHARE: u32 = 3;

#[derive(Debug)]
pub(crate) struct Tries {
    per_minute: u32,
    /// Hashes credentials with a random key, so that callers cannot predict the hash.
    hasher: RandomState,
    failed: Mutex<Failed>,
}

#[derive(Debug, Default)]
struct Failed {
    addresses: Recent<IpAddr>,
    credentials: Recent<u64>,
}

/// The time to wait before the next try, in seconds.
pub(crate) type RetryAfter = i64;

impl Tries {
    pub(crate) fn new(per_minute: u32) -> Self {
        Self { per_minute, hasher: RandomState::new(), failed: Mutex::default() }
    }

    /// Allows the credential to be checked.
    ///
    /// # Errors
    /// Fails if the credential has failed too often recently, with the time to wait.
    pub(crate) fn admit(&self, credential: &str, now: Instant) -> Result<(), RetryAfter> {
        let hash = self.hasher.hash_one(credential);
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        match failed.credentials.wait(&hash, self.per_minute_of_credential(), now) {
            None => Ok(()),
            Some(seconds) => Err(seconds),
        }
    }

    /// Counts an invalid credential. `Some` if its address has tried too often, with the time to wait.
    pub(crate) fn failed(
        &self,
        address: Option<IpAddr>,
        credential: &str,
        now: Instant,
    ) -> Option<RetryAfter> {
        let hash = self.hasher.hash_one(credential);
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.credentials.add(hash, self.per_minute_of_credential(), now);
        let address = network(address?);
        let too_many = failed.addresses.wait(&address, self.per_minute, now);
        failed.addresses.add(address, self.per_minute, now);
        too_many
    }

    fn per_minute_of_credential(&self) -> u32 {
        (self.per_minute / CREDENTIAL_SHARE).max(1)
    }
}

/// The network of an address. One machine can use a whole /64 network of IPv6 addresses, so they count as one.
fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64).into(),
    }
}

/// Counts of recently seen keys, which decrease over time. If there are too many keys, those not seen for the longest
/// time are forgotten.
#[derive(Debug)]
struct Recent<K> {
    new: HashMap<K, Count>,
    old: HashMap<K, Count>,
}

impl<K> Default for Recent<K> {
    fn default() -> Self {
        Self { new: HashMap::new(), old: HashMap::new() }
    }
}

#[derive(Debug, Clone, Copy)]
struct Count {
    tries: f64,
    at: Instant,
}

impl Count {
    /// The count at this time. It decreases by `per_minute` in a minute.
    fn now(self, per_minute: u32, now: Instant) -> f64 {
        let faded = now.saturating_duration_since(self.at).as_secs_f64() * f64::from(per_minute) / 60.0;
        (self.tries - faded).max(0.0)
    }
}

impl<K: Copy + Eq + Hash> Recent<K> {
    /// The time until one more try is allowed. `None` if it is allowed now.
    fn wait(&mut self, key: &K, per_minute: u32, now: Instant) -> Option<RetryAfter> {
        let count = self.new.get(key).or_else(|| self.old.get(key))?;
        let beyond = count.now(per_minute, now) + 1.0 - f64::from(per_minute);
        if beyond <= 0.0 {
            return None;
        }
        let wait = Duration::from_secs_f64(beyond * 60.0 / f64::from(per_minute));
        Some(i64::try_from(wait.as_secs()).unwrap_or(i64::MAX) + 1)
    }

    fn add(&mut self, key: K, per_minute: u32, now: Instant) {
        let count = self.new.get(&key).or_else(|| self.old.get(&key));
        let tries = count.map_or(0.0, |count| count.now(per_minute, now)) + 1.0;
        if self.new.len() >= REMEMBERED && !self.new.contains_key(&key) {
            self.old = std::mem::take(&mut self.new);
        }
        // The count is capped, so that one more try is allowed after a short time, however many tries there were.
        self.new.insert(key, Count { tries: tries.min(f64::from(per_minute)), at: now });
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const HERE: Option<IpAddr> = Some(IpAddr::V4(Ipv4Addr::LOCALHOST));

    #[test]
    fn an_address_that_tries_too_often_is_refused_until_its_count_decreases() {
        let (tries, now) = (Tries::new(60), Instant::now());
        let refused = |tries: &Tries, from: usize, now| {
            (from..from + 100).filter(|n| tries.failed(HERE, &n.to_string(), now).is_some()).count()
        };
        assert_eq!(refused(&tries, 0, now), 40);
        assert_eq!(tries.failed(HERE, "x", now), Some(2));
        // Another address is counted separately.
        assert_eq!(tries.failed(Some(Ipv4Addr::new(192, 0, 2, 1).into()), "x", now), None);
        let later = now + Duration::from_secs(30);
        assert_eq!(refused(&tries, 1_000, later), 70);
        // More tries do not make the wait longer.
        assert_eq!(tries.failed(HERE, "x", now + Duration::from_secs(33)), None);
    }

    #[test]
    fn a_credential_that_keeps_failing_is_not_looked_up() {
        let (tries, now) = (Tries::new(60), Instant::now());
        for _ in 0..20 {
            assert_eq!(tries.admit("bad", now), Ok(()));
            tries.failed(None, "bad", now);
        }
        assert_eq!(tries.admit("bad", now), Err(4));
        assert_eq!(tries.admit("good", now), Ok(()));
        assert_eq!(tries.admit("bad", now + Duration::from_secs(4)), Ok(()));
    }

    #[test]
    fn the_addresses_of_an_ipv6_network_count_as_one() {
        let (tries, now) = (Tries::new(3), Instant::now());
        let from = |n: u16| Some(IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, n)));
        let refused = (0..10).filter(|n| tries.failed(from(*n), &n.to_string(), now).is_some()).count();
        assert_eq!(refused, 7);
    }

    #[test]
    fn the_number_of_remembered_keys_is_bounded() {
        let (tries, now) = (Tries::new(60), Instant::now());
        let many = u32::try_from(REMEMBERED).unwrap() * 3;
        for n in 0..many {
            tries.failed(Some(Ipv4Addr::from_bits(n).into()), &n.to_string(), now);
        }
        let failed = tries.failed.lock().unwrap();
        for (new, old) in [
            (failed.addresses.new.len(), failed.addresses.old.len()),
            (failed.credentials.new.len(), failed.credentials.old.len()),
        ] {
            assert!(new <= REMEMBERED && old <= REMEMBERED, "{new} {old}");
        }
    }
}
