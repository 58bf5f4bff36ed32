//! The listening socket that systemd passes to its service (`sd_listen_fds(3)`): while the gateway restarts, connections wait
//! in it instead of being refused.

use std::{
    net::{SocketAddr, TcpListener},
    process,
};

use listenfd::ListenFd;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};

use crate::{cli::failure::CommandFailure, config::Environment};

/// Advice for a unit that passes anything else.
const ONE_SOCKET: &str = "let its socket unit have one `ListenStream=` with a port, as deploy/lockkeeper.socket has, or stop \
                          that unit: then the gateway opens its own socket";

/// A listening TCP socket of the service manager's.
#[derive(Debug)]
pub(super) struct InheritedSocket {
    pub(super) listener: TcpListener,
    pub(super) address: SocketAddr,
}

impl InheritedSocket {
    /// Takes the socket that is passed to this process; `None` if there is none. Programs that are started later do not get
    /// it.
    ///
    /// # Errors
    ///
    /// If something else is passed, or more than one.
    pub(super) fn take(environment: &Environment) -> Result<Option<Self>, CommandFailure> {
        if !is_for(process::id(), environment) {
            return Ok(None);
        }
        let unusable = |why: String| {
            Err(CommandFailure::failed("the socket from systemd cannot be used").why(why).advise(ONE_SOCKET))
        };
        let mut passed = ListenFd::from_env();
        if passed.len() > 1 {
            return unusable(format!("there are {} of them, and the gateway takes one", passed.len()));
        }
        let listener = match passed.take_tcp_listener(0) {
            Ok(Some(listener)) => listener,
            Ok(None) => return Ok(None),
            Err(error) => return unusable(format!("it is no listening TCP socket ({error})")),
        };
        match prepared(&listener) {
            Ok(address) => Ok(Some(Self { listener, address })),
            Err(error) => unusable(error.to_string()),
        }
    }
}

/// True if sockets are passed to this process, and not to one that started it.
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
