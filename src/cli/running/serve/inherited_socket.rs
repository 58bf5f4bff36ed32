//! The listening sockets that systemd passes to its service (`sd_listen_fds(3)`). While the gateway restarts,
//! connections wait in them instead of being refused, and the gateway needs no privilege for ports below 1024.

use std::{
    net::{SocketAddr, TcpListener},
    process,
};

use listenfd::ListenFd;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};

use crate::{cli::terminal::failure::CommandFailure, config::Environment};

/// Advice for a unit that passes anything else.
const ONE_SOCKET: &str = "let a socket unit have one `ListenStream=` with a port, and a second unit for port 80 \
                          `FileDescriptorName=http`, as in deploy/; or stop these units: then the gateway opens its own sockets";

/// Name of the socket without TLS.
const PLAIN: &str = "http";

/// The listening TCP sockets from the service manager.
#[derive(Debug)]
pub(super) struct InheritedSockets {
    /// The socket for clients.
    pub(super) main: TcpListener,
    pub(super) address: SocketAddr,
    /// The socket without TLS; its unit has `FileDescriptorName=http`.
    pub(super) plain: Option<TcpListener>,
}

impl InheritedSockets {
    /// Takes the sockets that are passed to this process; `None` if there are none. Programs that the gateway starts do
    /// not inherit them.
    ///
    /// # Errors
    ///
    /// If something other than a listening TCP socket is passed, or two sockets with the same purpose.
    pub(super) fn take(environment: &Environment) -> Result<Option<Self>, CommandFailure> {
        if !is_for(process::id(), environment) {
            return Ok(None);
        }
        let mut passed = ListenFd::from_env();
        let names = environment.get("LISTEN_FDNAMES").unwrap_or_default().to_owned();
        let mut sockets: [Option<TcpListener>; 2] = [None, None];
        for index in 0..passed.len() {
            let listener = match passed.take_tcp_listener(index) {
                Ok(Some(listener)) => listener,
                Ok(None) => continue,
                Err(error) => return Err(unusable(format!("one of them is not a listening TCP socket ({error})"))),
            };
            // a single socket is for clients, under any name
            let is_plain = passed.len() > 1 && names.split(':').nth(index) == Some(PLAIN);
            if sockets[usize::from(is_plain)].replace(listener).is_some() {
                let which = if is_plain { "without TLS" } else { "for clients" };
                return Err(unusable(format!("there is more than one {which}")));
            }
        }
        let [main, plain] = sockets;
        let Some(main) = main else { return Ok(None) };
        let address = prepared(&main).map_err(|error| unusable(error.to_string()))?;
        plain.as_ref().map(prepared).transpose().map_err(|error| unusable(error.to_string()))?;
        Ok(Some(Self { main, address, plain }))
    }
}

fn unusable(why: String) -> CommandFailure {
    CommandFailure::failed("the sockets from systemd cannot be used").why(why).advise(ONE_SOCKET)
}

/// True if the variables pass sockets to this process, not to one that started it.
fn is_for(process: u32, environment: &Environment) -> bool {
    let number = |name| environment.get(name).and_then(|text| text.trim().parse::<u32>().ok());
    number("LISTEN_PID") == Some(process) && number("LISTEN_FDS").is_some_and(|count| count > 0)
}

fn prepared(listener: &TcpListener) -> std::io::Result<SocketAddr> {
    fcntl(listener, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
    listener.set_nonblocking(true)?;
    listener.local_addr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_of_another_process_are_not_taken() {
        let environment = |variables: &[(&str, &str)]| variables.iter().copied().collect::<Environment>();
        assert!(is_for(7, &environment(&[("LISTEN_PID", "7"), ("LISTEN_FDS", "1")])));
        for other in [
            &[("LISTEN_PID", "8"), ("LISTEN_FDS", "1")][..],
            &[("LISTEN_PID", "7"), ("LISTEN_FDS", "0")],
            &[("LISTEN_PID", "7"), ("LISTEN_FDS", "many")],
            &[("LISTEN_PID", ""), ("LISTEN_FDS", "1")],
            &[("LISTEN_FDS", "1")],
            &[("LISTEN_PID", "7")],
            &[],
        ] {
            assert!(!is_for(7, &environment(other)), "{other:?}");
        }
    }
}
