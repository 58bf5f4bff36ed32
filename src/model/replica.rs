//! The number of a replica, and ids that name the replica that serves them.

use std::{fmt, time::Duration};

use bytes::Bytes;

/// The number of one start of a gateway on a shared database. It grows with each start and is never reused, so that it
/// also serves as the fencing number of everything that the replica owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplicaNumber(i64);

/// The address of a replica for the others: host and port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaAddress(String);

/// How many milliseconds the clock of a replica is ahead of its database's; negative if it is behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockDifference(i64);

/// A request that another replica has to answer, and its body; as a response extension.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedElsewhere {
    pub owner: ReplicaNumber,
    /// The body of the request.
    pub body: Bytes,
}

/// Where a request may be answered; as a request extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RequestPlace {
    /// At the replica that has what it names.
    #[default]
    Anywhere,
    /// At this one, for any id: no other replica has it.
    Here,
    /// At this one, to which another replica carried it. If this one does not have what it names, the other searches
    /// further.
    Carried,
    /// Nowhere, since the database is away: this replica refuses it, but a pending request may find its answer in it.
    Refused,
    /// At this one, but only answers in it: another replica has refused it, since it could not be carried here in time.
    Late,
}

// === impl ReplicaNumber ===

impl ReplicaNumber {
    /// The gateway that has its database to itself.
    pub const SOLE: Self = Self(0);

    /// A number from the store.
    pub const fn new(number: i64) -> Self {
        Self(number)
    }

    /// The number for the store.
    pub const fn get(self) -> i64 {
        self.0
    }

    /// An id of something that lives in this replica: `token`, a dot and the number; just `token` in a sole gateway.
    pub fn mark(self, token: String) -> String {
        if self == Self::SOLE { token } else { format!("{token}.{}", self.0) }
    }

    /// The token of an id of [`Self::mark`], and the replica that it names. The sender may have invented both.
    pub fn unmark(id: &str) -> (&str, Self) {
        let marked = id.rsplit_once('.').and_then(|(token, number)| Some((token, Self::parse(number)?)));
        marked.unwrap_or((id, Self::SOLE))
    }

    /// The number of this decimal text, as `Display` writes it.
    pub fn parse(text: &str) -> Option<Self> {
        let is_canonical = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
        text.parse().ok().filter(|_| is_canonical).map(Self)
    }
}

impl fmt::Display for ReplicaNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

// === impl ReplicaAddress ===

impl ReplicaAddress {
    /// Parses `HOST:PORT`; the host is a name or an IP address, with IPv6 in brackets. The error says what is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || "this must be `HOST:PORT`, such as `10.0.0.5:8701` or `gateway-0.gateway:8701`".to_owned();
        let authority: http::uri::Authority = text.parse().map_err(|_| wrong())?;
        let port = authority.port_u16().filter(|port| *port != 0);
        if port.is_none() || authority.host().is_empty() || text.contains('@') {
            return Err(wrong());
        }
        Ok(Self(text.to_owned()))
    }

    /// Host and port, to connect to.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ReplicaAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

// === impl ClockDifference ===

impl ClockDifference {
    /// A correct clock.
    pub const ZERO: Self = Self(0);

    /// From milliseconds.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Milliseconds.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// Seconds.
    pub const fn as_seconds(self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "exact for 285,000 years")]
        let millis = self.0 as f64;
        millis / 1000.0
    }

    /// The time between two clocks with these differences.
    pub const fn between(self, other: Self) -> Duration {
        Duration::from_millis(self.0.abs_diff(other.0))
    }

    /// Its size, without the direction.
    pub const fn size(self) -> Duration {
        self.between(Self::ZERO)
    }

    /// The smallest possible difference, if it was measured too small by at most this much.
    #[must_use]
    pub fn at_least(self, too_small_by: Duration) -> Self {
        let most = self.0.saturating_add(i64::try_from(too_small_by.as_millis()).unwrap_or(i64::MAX));
        Self(if self.0 > 0 { self.0 } else { most.min(0) })
    }
}

/// Such as `3600.0 s ahead of`.
impl fmt::Display for ClockDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let direction = if self.0 < 0 { "behind" } else { "ahead of" };
        write!(f, "{:.1} s {direction}", self.size().as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_names_its_replica_and_one_of_a_sole_gateway_none() {
        let number = ReplicaNumber::new(17);
        let id = number.mark("gw1.a-b_c".to_owned());
        assert_eq!(id, "gw1.a-b_c.17");
        assert_eq!(ReplicaNumber::unmark(&id), ("gw1.a-b_c", number));
        let sole = ReplicaNumber::SOLE.mark("gw1.abc".to_owned());
        assert_eq!(ReplicaNumber::unmark(&sole), ("gw1.abc", ReplicaNumber::SOLE));
        for invented in ["", ".", "a.", "a.0", "a.-1", "a.+1", "a.01", "a.99999999999999999999", "a.1x"] {
            assert_eq!(ReplicaNumber::unmark(invented), (invented, ReplicaNumber::SOLE), "{invented}");
        }
    }

    #[test]
    fn a_difference_of_clocks_has_a_direction_and_an_uncertainty() {
        let of = ClockDifference::from_millis;
        assert_eq!(of(3_600_000).to_string(), "3600.0 s ahead of");
        assert_eq!(of(-1_260).to_string(), "1.3 s behind");
        assert_eq!(of(-500).between(of(700)), Duration::from_millis(1_200));
        // the database read its clock later than this machine read its own
        let late = Duration::from_millis(900);
        assert_eq!([2_000, -500, -2_000].map(|millis| of(millis).at_least(late)), [of(2_000), of(0), of(-1_100)]);
    }

    #[test]
    fn an_address_has_a_host_and_a_port() {
        for right in ["10.0.0.5:8701", "[fd00::5]:8701", "gateway-0.gateway:1"] {
            assert_eq!(ReplicaAddress::parse(right).unwrap().as_str(), right);
        }
        for wrong in ["10.0.0.5", ":8701", "host:0", "host:99999", "http://host:1", "a@host:1", ""] {
            assert!(ReplicaAddress::parse(wrong).unwrap_err().contains("HOST:PORT"), "{wrong}");
        }
    }
}
