//! The section `[limits]`: its rules between keys.

use super::{keys, section::Section, units::show_duration};
use crate::model::LimitsConfig;

/// Reads the section; reports invalid values and uses their defaults.
pub(super) fn read(section: &mut Section<'_>) -> LimitsConfig {
    let (mut limits, given) = keys::read(section, LimitsConfig::KEYS, LimitsConfig::default());
    if limits.server_request_slot_time > limits.server_request_timeout {
        if given.contains(&"server_request_slot_time") {
            let (given, most) =
                (show_duration(limits.server_request_slot_time), show_duration(limits.server_request_timeout));
            section.fault_of("server_request_slot_time", format!("{given} is not between 1s and {most}"));
        }
        limits.server_request_slot_time = limits.server_request_timeout;
    }
    if !given.contains(&"slot_wait") {
        limits.slot_wait = limits.slot_wait.max(limits.server_request_slot_time * 2);
    } else if limits.slot_wait <= limits.server_request_slot_time {
        section.fault(
            "`slot_wait` must be longer than `server_request_slot_time`: calls would end before they can get a process",
            Some("raise `slot_wait`, or lower `server_request_slot_time`"),
        );
    }
    limits
}
