//! Durations (`30m`) and sizes (`16MiB`) in text form.

use std::time::Duration;

/// The units of time, the largest first.
const TIME: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// The units of size, the largest first.
const SIZE: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// Reads `30m`, `1h30m`, `90d`, `500ms`: whole numbers, each with a unit.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let fault = || "a duration is a number with a unit: `500ms`, `60s`, `30m`, `1h`, `90d`".to_owned();
    let mut rest = text.trim();
    let mut millis = 0_u64;
    if rest.is_empty() {
        return Err(fault());
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(fault)?;
        let (number, after) = rest.split_at(digits);
        let letters = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let (unit, after) = after.split_at(letters);
        let (_, factor) = TIME.iter().find(|(name, _)| *name == unit).ok_or_else(fault)?;
        let number: u64 = number.parse().map_err(|_| fault())?;
        millis = number.checked_mul(*factor).and_then(|part| millis.checked_add(part)).ok_or_else(fault)?;
        rest = after.trim_start();
    }
    Ok(Duration::from_millis(millis))
}

/// Reads `16MiB`, `64KiB`, `512B`, or a plain number of bytes.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let fault = || "a size is a number of bytes with a unit: `64KiB`, `16MiB`, `1GiB`".to_owned();
    let text = text.trim();
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let unit = if unit.is_empty() { "B" } else { unit.trim_start() };
    let (_, factor) = SIZE.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)).ok_or_else(fault)?;
    number.parse::<u64>().ok().and_then(|number| number.checked_mul(*factor)).ok_or_else(fault)
}

/// Writes a duration in the largest unit that divides it.
pub fn show_duration(duration: Duration) -> String {
    let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    if millis == 0 {
        return "0s".to_owned();
    }
    show(millis, &TIME)
}

/// Writes a size in the largest unit that divides it.
pub fn show_size(bytes: u64) -> String {
    show(bytes, &SIZE)
}

fn show(amount: u64, units: &[(&str, u64)]) -> String {
    let fitting = units.iter().find(|(_, factor)| amount >= *factor && amount.is_multiple_of(*factor));
    fitting.map_or_else(|| amount.to_string(), |(unit, factor)| format!("{}{unit}", amount / factor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_read_back_as_it_is_written() {
        for text in ["500ms", "60s", "30m", "1h", "90d", "0s"] {
            let duration = parse_duration(text).unwrap();
            assert_eq!(parse_duration(&show_duration(duration)), Ok(duration), "{text}");
        }
        assert_eq!(parse_duration("1h 30m"), Ok(Duration::from_mins(90)));
        assert_eq!(show_duration(Duration::from_mins(90)), "90m");
        for text in ["", "5", "m", "1.5h", "-1s", "1 h", "3w", "99999999999999999999s", "999999999999999999d"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_size_is_read_back_as_it_is_written() {
        assert_eq!(parse_size("16MiB"), Ok(16 << 20));
        assert_eq!(parse_size("64 kib"), Ok(64 << 10));
        assert_eq!(parse_size("7"), Ok(7));
        assert_eq!(show_size(16 << 20), "16MiB");
        for text in ["", "MiB", "1MB", "-1", "99999999999GiB"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }
}
