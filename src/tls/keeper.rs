//! Keeps the certificate new: reads its files again when they change, or orders another one in time. One for each
//! gateway.

use std::{
    fs,
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};

use instant_acme::{Account, CertificateIdentifier, Error};
use parking_lot::Mutex;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{
    acme_http::AcmeHttp,
    certificate::{CertificateFault, ServedCertificate},
    certificates::Certificates,
    first_look,
    order::{self, AuthorityDeps, Obtained, OrderFailure, OrderWork, sealed_place},
    schedule,
};
use crate::{
    model::{CertificateFiles, status::CertificateStatus},
    storage::{CertificateHold, CertificateRow, IssuedCertificate, StorageError},
    support::{Clock, Timestamp},
    vault::VaultError,
};

/// Interval for checking the files.
const FILES_EVERY: Duration = Duration::from_secs(10);
/// Interval between a replica's checks of the others' orders.
const REPLICAS_EVERY: Duration = Duration::from_secs(2);
/// Longest interval between a sole gateway's checks for a due order, since a clock may be set.
const SOLE_EVERY: Duration = Duration::from_mins(10);
/// Pause after a database failure.
const AFTER_FAULT: Duration = Duration::from_secs(30);
/// A lost process holds an order for this long.
const LEASE: Duration = Duration::from_mins(2);
/// Maximum time of an order.
const ORDER_TIMEOUT: Duration = Duration::from_mins(10);
/// Bounds of the authority's interval between queries for the renewal time (RFC 9773 4.3.2).
const ADVICE_EVERY: std::ops::RangeInclusive<Duration> = Duration::from_hours(1)..=Duration::from_hours(24);
/// An order that ended for lack of a nonce is begun again this many times.
const NONCE_ATTEMPTS: u32 = 5;
/// A certificate that ends this soon is reported every day.
const ENDS_SOON: Duration = Duration::from_hours(7 * 24);
/// The holder if only one gateway uses the database, so that a killed process counts as the same.
const SOLE: &str = "sole";

/// Keeps the certificate new.
pub struct CertificateKeeper {
    certificates: Arc<Certificates>,
    clock: Arc<dyn Clock>,
    source: CertificateOrigin,
    ends_soon_told: Mutex<Option<Timestamp>>,
}

enum CertificateOrigin {
    Files { files: CertificateFiles, seen: Mutex<FilesSeen> },
    Authority(Box<Authority>),
}

/// The last seen files.
#[derive(Default)]
struct FilesSeen {
    stamp: Option<Stamp>,
    fault: Option<String>,
}

/// Changes when a file does.
type Stamp = [(Option<SystemTime>, u64); 2];

struct Authority {
    deps: AuthorityDeps,
    http: AcmeHttp,
    holder: String,
    state: Mutex<AuthorityState>,
}

/// The last seen row.
#[derive(Default)]
struct AuthorityState {
    due: Option<Timestamp>,
    failure: Option<(Timestamp, String)>,
    /// The chain presented now.
    shown: Option<String>,
    /// Number of successive orders that ended for lack of a nonce.
    without_nonce: u32,
    /// Time to ask the authority for advice again.
    advice_due: Option<Timestamp>,
}

/// Why a round failed.
#[derive(Debug, thiserror::Error)]
enum RoundFault {
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error(transparent)]
    Sealed(#[from] VaultError),
    #[error(transparent)]
    Certificate(#[from] CertificateFault),
}

// === impl CertificateKeeper ===

impl CertificateKeeper {
    /// For files, which are read now.
    ///
    /// # Errors
    ///
    /// If they hold no certificate with its key.
    pub fn of_files(
        files: CertificateFiles,
        certificates: Arc<Certificates>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, String> {
        let (stamp, certificate) = (stamp(&files), read(&files)?);
        let origin = CertificateOrigin::Files { files, seen: Mutex::new(FilesSeen { stamp, fault: None }) };
        let keeper = Self { certificates, clock, source: origin, ends_soon_told: Mutex::default() };
        keeper.show(certificate);
        Ok(keeper)
    }

    /// For an authority. The database's certificate is presented from the first round on.
    pub fn of_authority(deps: AuthorityDeps, certificates: Arc<Certificates>) -> Self {
        let clock = Arc::clone(&deps.clock);
        let holder = if deps.is_shared { deps.random.token() } else { SOLE.to_owned() };
        let http = AcmeHttp::new(deps.client.clone(), Arc::clone(&clock));
        let authority = Authority { deps, http, holder, state: Mutex::default() };
        Self {
            certificates,
            clock,
            source: CertificateOrigin::Authority(Box::new(authority)),
            ends_soon_told: Mutex::default(),
        }
    }

    /// Keeps the certificate new until `cancel`.
    pub async fn run(self: Arc<Self>, cancel: CancellationToken) {
        let rounds = async {
            if let CertificateOrigin::Authority(authority) = &self.source {
                self.begin(authority).await;
            }
            loop {
                let wait = match &self.source {
                    CertificateOrigin::Files { files, seen } => self.read_again(files, seen),
                    CertificateOrigin::Authority(authority) => match self.round(authority).await {
                        Ok(wait) => wait,
                        Err(error) => {
                            tracing::warn!(%error, "the certificate cannot be checked or renewed");
                            AFTER_FAULT
                        }
                    },
                };
                self.tell_end();
                sleep(wait).await;
            }
        };
        cancel.run_until_cancelled(rounds).await;
    }

    /// The certificate for people.
    pub fn status(&self) -> CertificateStatus {
        let served = self.certificates.served();
        let (names, source, next_order, fault) = match &self.source {
            CertificateOrigin::Files { files, seen } => {
                (Vec::new(), files.certificate.display().to_string(), None, seen.lock().fault.clone())
            }
            CertificateOrigin::Authority(authority) => {
                let state = authority.state.lock();
                let failure = state.failure.as_ref().map(|(at, what)| format!("the order at {at} failed: {what}"));
                (authority.deps.names.clone(), authority.deps.spec.directory.clone(), state.due, failure)
            }
        };
        let ended = served.as_ref().filter(|served| served.not_after <= self.clock.now());
        let ended = ended.map(|served| format!("it ended at {}: clients refuse it", served.not_after));
        CertificateStatus {
            names: served.as_ref().map_or(names, |served| served.names.clone()),
            source,
            issuer: served.as_ref().map(|served| served.issuer.clone()),
            valid_until: served.as_ref().map(|served| served.not_after.to_string()),
            next_order: next_order.map(|due| due.to_string()),
            fault: ended.into_iter().chain(fault).reduce(|one, other| format!("{one}; {other}")),
        }
    }

    fn show(&self, certificate: ServedCertificate) {
        let ends = certificate.not_after;
        tracing::info!(names = certificate.names.join(" "), issuer = certificate.issuer, %ends, "this certificate is shown to clients");
        #[expect(clippy::cast_precision_loss, reason = "seconds since 1970 are exact in an f64")]
        metrics::gauge!("lockkeeper_certificate_expires_seconds").set(ends.as_seconds() as f64);
        self.certificates.serve(certificate);
    }

    /// Warns once a day of a certificate that ends soon, which should have been replaced by then.
    fn tell_end(&self) {
        let Some(served) = self.certificates.served() else { return };
        let now = self.clock.now();
        let lifetime = served.not_after.since(served.not_before);
        if served.not_after.since(now) > ENDS_SOON.min(lifetime / 4) {
            return;
        }
        let mut told = self.ends_soon_told.lock();
        if told.is_none_or(|at| now.since(at) >= Duration::from_hours(24)) {
            *told = Some(now);
            tracing::warn!(ends = %served.not_after, "the certificate that clients see ends soon, or has ended, and there is no new one");
        }
    }
}

impl CertificateKeeper {
    /// Presents the files' present content, if it has changed. A certificate without its key yet is checked again
    /// later.
    fn read_again(&self, files: &CertificateFiles, seen: &Mutex<FilesSeen>) -> Duration {
        let stamp = stamp(files);
        let mut seen = seen.lock();
        if seen.stamp != stamp {
            seen.stamp = stamp;
            seen.fault = match read(files) {
                Ok(certificate) => {
                    self.show(certificate);
                    None
                }
                Err(fault) => {
                    tracing::warn!(fault, "the new certificate is not shown: the one before is");
                    Some(fault)
                }
            };
        }
        FILES_EVERY
    }
}

fn read(files: &CertificateFiles) -> Result<ServedCertificate, String> {
    let text = |path: &Path| fs::read(path).map_err(|error| format!("{} cannot be read: {error}", path.display()));
    let chain = String::from_utf8(text(&files.certificate)?)
        .map_err(|_| format!("{} is not PEM", files.certificate.display()))?;
    let key = zeroize::Zeroizing::new(text(&files.key)?);
    ServedCertificate::from_pem(&chain, &key).map_err(|fault| format!("{}: {fault}", files.certificate.display()))
}

fn stamp(files: &CertificateFiles) -> Option<Stamp> {
    let of = |path: &Path| fs::metadata(path).ok().map(|file| (file.modified().ok(), file.len()));
    Some([of(&files.certificate)?, of(&files.key)?])
}

impl CertificateKeeper {
    /// Presents the stored certificate, and lets a start retry an order that failed a while ago.
    async fn begin(&self, authority: &Authority) {
        let deps = &authority.deps;
        let begun = async {
            let table = deps.storage.certificates();
            let row = table.get_or_add(&deps.place, self.clock.now()).await?;
            let due = schedule::due_at_start(row.due, row.failure.as_ref().map(|(at, _)| *at));
            if due < row.due {
                table.reschedule(&deps.place, row.due, due).await?;
            }
            if row.issued.is_none() {
                first_look::report(&deps.names, deps.listen, deps.has_plain_port).await;
            }
            Ok::<_, StorageError>(())
        };
        if let Err(error) = begun.await {
            tracing::warn!(%error, "the certificate cannot be looked for");
        }
    }

    /// Presents the database's certificate, and makes due orders. Returns the time to the next round.
    async fn round(&self, authority: &Authority) -> Result<Duration, RoundFault> {
        let deps = &authority.deps;
        let (table, now) = (deps.storage.certificates(), self.clock.now());
        let row = table.get_or_add(&deps.place, now).await?;
        self.show_stored(authority, &row).await?;
        if deps.is_shared {
            self.certificates.challenges.replace(table.challenges(now).await?);
        }
        {
            let mut state = authority.state.lock();
            (state.due, state.failure) = (Some(row.due), row.failure.clone());
        }
        let every = if deps.is_shared { REPLICAS_EVERY } else { SOLE_EVERY };
        if row.due > now {
            if row.issued.is_some() && self.take_advice(authority, &row).await {
                return Ok(Duration::ZERO);
            }
            return Ok(row.due.since(now).min(every));
        }
        let hold = CertificateHold { place: &deps.place, holder: &authority.holder };
        if !table.hold(hold, now, LEASE).await? {
            return Ok(REPLICAS_EVERY);
        }
        self.order(authority, &row, hold).await?;
        Ok(Duration::ZERO)
    }

    async fn show_stored(&self, authority: &Authority, row: &CertificateRow) -> Result<(), RoundFault> {
        let Some(issued) = &row.issued else { return Ok(()) };
        if authority.state.lock().shown.as_ref() == Some(&issued.chain) {
            return Ok(());
        }
        let place = sealed_place(&authority.deps.place, "certificate key");
        let key = authority.deps.vault.open(place, &issued.sealed).await?;
        self.show(ServedCertificate::from_pem(&issued.chain, &key)?);
        authority.state.lock().shown = Some(issued.chain.clone());
        Ok(())
    }

    /// Carries one order to its end while the row is held, and stores the result.
    async fn order(
        &self,
        authority: &Authority,
        row: &CertificateRow,
        hold: CertificateHold<'_>,
    ) -> Result<(), RoundFault> {
        let deps = &authority.deps;
        let table = deps.storage.certificates();
        tracing::info!(names = deps.names.join(" "), directory = deps.spec.directory, "ordering a certificate");
        let work = OrderWork { deps, http: &authority.http, certificates: &self.certificates, hold, row };
        let lost = async {
            loop {
                sleep(LEASE / 4).await;
                if let Ok(false) = table.hold(hold, self.clock.now(), LEASE).await {
                    return;
                }
            }
        };
        let outcome = tokio::select! {
            outcome = timeout(ORDER_TIMEOUT, work.obtain()) => outcome.unwrap_or_else(|_| {
                Err(OrderFailure::Unreachable(format!("it has not issued a certificate in {ORDER_TIMEOUT:?}")))
            }),
            // another replica continues it
            () = lost => return Ok(()),
        };
        {
            let mut state = authority.state.lock();
            let is_nonce = matches!(outcome, Err(OrderFailure::Nonces));
            state.without_nonce = if is_nonce { state.without_nonce + 1 } else { 0 };
        }
        match outcome {
            Err(OrderFailure::Nonces) if authority.state.lock().without_nonce < NONCE_ATTEMPTS => {
                // the next round continues it
                Ok(table.release(hold).await?)
            }
            Ok(obtained) => self.keep(authority, &obtained, hold).await,
            Err(failure) => self.note(authority, &failure, row, hold).await,
        }
    }

    async fn keep(
        &self,
        authority: &Authority,
        obtained: &Obtained,
        hold: CertificateHold<'_>,
    ) -> Result<(), RoundFault> {
        let deps = &authority.deps;
        let certificate = ServedCertificate::from_pem(&obtained.chain, obtained.key.as_bytes())?;
        let due = schedule::renewal(&(certificate.not_before..certificate.not_after), &*deps.random);
        let sealed = deps.vault.seal(sealed_place(&deps.place, "certificate key"), obtained.key.as_bytes()).await?;
        let issued = IssuedCertificate { chain: obtained.chain.clone(), sealed };
        if deps.storage.certificates().succeed(hold, &issued, due).await? {
            metrics::counter!("lockkeeper_certificate_orders_total", "outcome" => "issued").increment(1);
            self.show(certificate);
            let mut state = authority.state.lock();
            (state.shown, state.advice_due) = (Some(issued.chain), None);
        }
        Ok(())
    }

    async fn note(
        &self,
        authority: &Authority,
        failure: &OrderFailure,
        row: &CertificateRow,
        hold: CertificateHold<'_>,
    ) -> Result<(), RoundFault> {
        let deps = &authority.deps;
        let (table, now) = (deps.storage.certificates(), self.clock.now());
        let due = now + schedule::pause(row.failures, failure.kind(&authority.http), &*deps.random);
        metrics::counter!("lockkeeper_certificate_orders_total", "outcome" => "failed").increment(1);
        tracing::warn!(names = deps.names.join(" "), next = %due, "no certificate: {failure}");
        if failure.ends_the_order() {
            table.set_order(hold, None).await?;
        }
        if let OrderFailure::NoAccount(_) = failure {
            table.forget_account(&deps.spec.directory).await?;
        }
        Ok(table.fail(hold, &failure.to_string(), now, due).await?)
    }

    /// Asks the authority from time to time when to renew, and follows the answer. True if the answer has changed.
    async fn take_advice(&self, authority: &Authority, row: &CertificateRow) -> bool {
        let now = self.clock.now();
        if authority.state.lock().advice_due.is_some_and(|due| due > now) {
            return false;
        }
        let (is_new, wait) = self.advice(authority, row).await.unwrap_or_else(|error| {
            tracing::debug!(%error, "the authority gives no advice when to renew");
            (false, *ADVICE_EVERY.end() / 4)
        });
        authority.state.lock().advice_due = Some(now + wait);
        is_new
    }

    async fn advice(&self, authority: &Authority, row: &CertificateRow) -> Result<(bool, Duration), OrderFailure> {
        let (deps, none) = (&authority.deps, (false, *ADVICE_EVERY.end()));
        let Some(served) = self.certificates.served() else { return Ok(none) };
        let account: Option<Account> = order::account(deps, &authority.http).await?;
        let id = served.key.cert.first().and_then(|first| CertificateIdentifier::try_from(first).ok());
        let Some((account, id)) = account.zip(id) else { return Ok(none) };
        let (info, wait) = match account.renewal_info(&id).await {
            Err(Error::Unsupported(_)) => return Ok(none),
            asked => asked?,
        };
        let window = info.suggested_window;
        let window = Timestamp::from_seconds(window.start.unix_timestamp())
            ..Timestamp::from_seconds(window.end.unix_timestamp());
        let is_new = !window.contains(&row.due);
        if is_new {
            let due = schedule::within(&window, &*deps.random);
            let reason = info.explanation_url.unwrap_or_default();
            tracing::info!(%due, reason, "the authority suggests another time to renew the certificate");
            deps.storage.certificates().reschedule(&deps.place, row.due, due).await?;
        }
        Ok((is_new, wait.clamp(*ADVICE_EVERY.start(), *ADVICE_EVERY.end())))
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};

    use super::*;
    use crate::support::SystemClock;

    fn write(files: &CertificateFiles, name: &str) -> String {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec![name.to_owned()]).unwrap().self_signed(&key).unwrap();
        fs::write(&files.certificate, certificate.pem()).unwrap();
        key.serialize_pem()
    }

    #[tokio::test(start_paused = true)]
    async fn files_that_change_are_shown_once_they_belong_together() {
        let folder = tempfile::tempdir().unwrap();
        let files =
            CertificateFiles { certificate: folder.path().join("chain.pem"), key: folder.path().join("key.pem") };
        fs::write(&files.key, write(&files, "first.example")).unwrap();
        let certificates = Arc::new(Certificates::default());
        let keeper = CertificateKeeper::of_files(files.clone(), Arc::clone(&certificates), Arc::new(SystemClock));
        let keeper = Arc::new(keeper.unwrap());
        let stop = CancellationToken::new();
        let mut running = tokio::task::JoinSet::new();
        running.spawn(Arc::clone(&keeper).run(stop.clone()));
        let shown = || certificates.served().unwrap().names.clone();
        assert_eq!(shown(), ["first.example"]);
        let key = write(&files, "second.example");
        sleep(FILES_EVERY * 2).await;
        assert_eq!(shown(), ["first.example"], "its key is not there yet");
        assert!(keeper.status().fault.unwrap().ends_with("the private key belongs to another certificate"));
        fs::write(&files.key, key + "\n").unwrap();
        sleep(FILES_EVERY * 2).await;
        assert_eq!((shown(), keeper.status().fault), (vec!["second.example".to_owned()], None));
        stop.cancel();
        running.join_next().await.unwrap().unwrap();
    }
}
