//! What a replica does without a lease, and with a wrong clock.

use super::*;
use crate::support::ManualClock;

#[tokio::test]
async fn a_replica_without_a_lease_serves_nothing_and_answers_nothing() {
    let storage = Storage::for_tests(None).await.unwrap();
    let one = Member::join(&storage).await;
    let (begun, begins) = oneshot::channel();
    let (begun, fence) = (Mutex::new(Some(begun)), one.replicas.fence());
    let slow = |_: Request| {
        begun.lock().take().map(|begun| begun.send(()));
        // the lease ends while the call runs
        fence.open_until(Instant::now());
        async { StatusCode::OK.into_response() }
    };
    let mut answer = Box::pin(one.replicas.answer(post("s.1", ""), slow));
    assert!(futures_util::poll!(&mut answer).is_pending());
    begins.await.unwrap();
    pause();
    let since = Instant::now();
    let refused = one.answer(post("s.1", "mine")).await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(since.elapsed() >= RESTARTS_WITHIN, "a database may restart meanwhile");
    assert_eq!(*one.got.lock(), ["refused: mine"]);
    // it has: nothing was lost
    let mut later = Box::pin(one.answer(post("s.1", "later")));
    assert!(futures_util::poll!(&mut later).is_pending());
    fence.open_until(Instant::now() + LEASE);
    assert_eq!(later.await.status(), StatusCode::OK);
    assert_eq!(answer.await.status(), StatusCode::OK);
}

#[tokio::test]
async fn a_message_that_is_refused_is_carried_later_for_the_answer_in_it() {
    let storage = Storage::for_tests(None).await.unwrap();
    let (one, two) = Member::pair(&storage).await;
    one.replicas.membership.look_for_tests().await;
    let id = two.replicas.number().mark("s".to_owned());
    for member in [&one, &two] {
        member.replicas.fence().open_until(Instant::now());
    }
    let refused = one.replicas.refuse(post(&id, "an answer"), |_| async { unreachable!() }).await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    let mut forged = post(&id, "forged");
    forged.headers_mut().insert(hop::LATE, header::HeaderValue::from_static("1"));
    for member in [&one, &two] {
        member.replicas.fence().open_until(Instant::now() + LEASE);
    }
    // a client cannot say of its message that it is late
    assert_eq!(told(one.answer(forged).await).await.1, "forged");
    let late = async {
        while two.got.lock().len() < 2 {
            sleep(RETRIED_AFTER / 10).await;
        }
    };
    timeout(LEASE, late).await.unwrap();
    assert_eq!(*two.got.lock(), ["forged", "late: an answer"]);
}

#[tokio::test]
async fn an_error_of_the_gateway_waits_for_no_lease() {
    let storage = Storage::for_tests(None).await.unwrap();
    let one = Member::join(&storage).await;
    let fence = one.replicas.fence();
    let failing = |_: Request| {
        fence.open_until(Instant::now());
        async { StatusCode::SERVICE_UNAVAILABLE.into_response() }
    };
    assert_eq!(one.replicas.answer(post("s.1", ""), failing).await.status(), StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test]
async fn a_replica_is_not_ready_without_a_lease_and_with_a_wrong_clock() {
    let storage = Storage::for_tests(None).await.unwrap();
    let _right = Member::join(&storage).await;
    let clock = Arc::new(ManualClock::new(SystemClock.now()));
    let join = async |clock: &Arc<ManualClock>| {
        let address = ReplicaAddress::parse("127.0.0.1:1").unwrap();
        Membership::join(storage.clone(), Arc::clone(clock) as _, &address, BTreeSet::new()).await
    };
    let off = join(&clock).await.unwrap();
    assert_eq!(off.unready(), None);
    clock.advance(Duration::from_hours(1));
    off.renew_for_tests().await;
    off.look_for_tests().await;
    assert_eq!(off.unready(), None, "the others may be about to notice the same");
    pause();
    tokio::time::advance(RENEWED_EVERY * 2).await;
    tokio::time::resume();
    let Some(Unready::WrongClock(difference)) = off.unready() else { panic!("{:?}", off.unready()) };
    assert!((3_590.0..3_610.0).contains(&difference.as_seconds()), "{difference}");
    let refused = join(&clock).await.err().unwrap().to_string();
    assert!(refused.contains("the clock of this machine is 3") && refused.contains("NTP"), "{refused}");
    off.fence().open_until(Instant::now());
    assert_eq!(off.unready(), Some(Unready::NoLease));
}

#[tokio::test]
async fn a_deposed_replica_learns_it_and_keeps_nothing() {
    let storage = Storage::for_tests(None).await.unwrap();
    let one = Member::join(&storage).await;
    storage.replicas().leave(one.replicas.number()).await.unwrap();
    assert_eq!(one.replicas.keep(CancellationToken::new()).await, Err(Deposed));
}
