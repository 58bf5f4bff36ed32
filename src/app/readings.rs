//! Metrics that are read at the moment of a scrape: about servers and about this process.

use std::fs;

use nix::sys::{
    resource::{Resource, UsageWho, getrlimit, getrusage},
    time::{TimeVal, TimeValLike as _},
};

use crate::{
    backend::BackendVitals,
    support::{Timestamp, own_memory},
    telemetry::MetricReading,
};

/// Reads the metrics of these servers and of this process, which started at `since`. Values that the system does not
/// give are left out.
pub(super) fn readings(servers: &[BackendVitals], since: Timestamp) -> Vec<MetricReading<'_>> {
    let up = servers.iter().filter_map(|server| {
        let value = if server.is_up? { 1.0 } else { 0.0 };
        Some(MetricReading { name: "lockkeeper_server_up", server: Some(server.id.as_str()), value })
    });
    let calls = servers.iter().map(|server| MetricReading {
        name: "lockkeeper_server_calls_in_flight",
        server: Some(server.id.as_str()),
        value: whole(server.running_calls as u64),
    });
    let process = [
        ("process_cpu_seconds_total", cpu_seconds()),
        ("process_resident_memory_bytes", own_memory().map(whole)),
        ("process_open_fds", open_files().map(whole)),
        ("process_max_fds", getrlimit(Resource::RLIMIT_NOFILE).ok().map(|(soft, _)| whole(soft))),
        ("process_start_time_seconds", u64::try_from(since.as_seconds()).ok().map(whole)),
    ];
    let process =
        process.into_iter().filter_map(|(name, value)| Some(MetricReading { name, server: None, value: value? }));
    up.chain(calls).chain(process).collect()
}

/// Processor time of this process, without the programs that it started.
fn cpu_seconds() -> Option<f64> {
    let used = getrusage(UsageWho::RUSAGE_SELF).ok()?;
    let microseconds = |time: TimeVal| u64::try_from(time.num_microseconds()).ok();
    Some(whole(microseconds(used.user_time())? + microseconds(used.system_time())?) / 1e6)
}

fn open_files() -> Option<u64> {
    let open = fs::read_dir("/proc/self/fd").or_else(|_| fs::read_dir("/dev/fd")).ok()?;
    // the open folder is one of them
    Some(open.count().saturating_sub(1) as u64)
}

/// Converts an integer to a metric's value. Only numbers above 2^53 are rounded.
#[expect(clippy::cast_precision_loss, reason = "a value of Prometheus has no more digits")]
fn whole(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        model::BackendId,
        support::{Clock as _, SystemClock},
    };

    #[test]
    fn servers_and_process_have_values() {
        let server = |id: &str, is_up| BackendVitals { id: BackendId::parse(id).unwrap(), is_up, running_calls: 2 };
        let servers = [server("up", Some(true)), server("down", Some(false)), server("elsewhere", None)];
        let readings = readings(&servers, SystemClock.now());
        let of = |name: &str| -> Vec<(Option<&str>, f64)> {
            readings.iter().filter(|one| one.name == name).map(|one| (one.server, one.value)).collect()
        };
        assert_eq!(of("lockkeeper_server_up"), [(Some("up"), 1.0), (Some("down"), 0.0)]);
        assert_eq!(of("lockkeeper_server_calls_in_flight").len(), 3);
        for name in
            ["process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds", "process_max_fds"]
        {
            assert!(matches!(of(name)[..], [(None, value)] if value >= 0.0), "{name}");
        }
        let [(_, start)] = of("process_start_time_seconds")[..] else { panic!("no start") };
        assert!(start > 1.7e9, "{start}");
    }
}
