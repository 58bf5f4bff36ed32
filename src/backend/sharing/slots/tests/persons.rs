//! Server requests that wait for a person: other processes, and calls that yield.

use super::*;

#[tokio::test(start_paused = true)]
async fn while_a_request_waits_for_a_person_another_process_serves_after_five_seconds() {
    for (user, other) in [("ann", "ann"), ("ann", "bob")] {
        let bench = Bench::new(1);
        let _first = bench.asking(user, "a").await;
        let mut second = bench.call(other, "b").await;
        pass(just_before(RELIEF)).await;
        assert!(second.waits().await);
        pass(MOMENT).await;
        let second = second.given().await.expect("another process");
        assert_eq!(second.key().slot(), 1);
        // the running slot is the only active one allowed: `parallel` is 1
        assert!(bench.call(other, "c").await.waits().await);
        bench.end(second).await;
        // the request has been open for long: the next one does not wait at all
        assert!(bench.call(other, "d").await.given().await.is_some());
        assert!(bench.closed().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn where_the_server_may_have_no_other_process_calls_wait_until_one_yields() {
    let bench = Bench { has_room: false, ..Bench::new(1) };
    let _asking = bench.asking("ann", "a").await;
    let (own, other) = (bench.call("ann", "b").await, bench.call("bob", "c").await);
    pass(just_before(SLOT_TIME)).await;
    assert!(own.waits().await && other.waits().await && bench.closed().is_empty());
    pass(MOMENT).await;
    assert_eq!(bench.closed(), [0]);
}

#[tokio::test(start_paused = true)]
async fn where_no_process_is_free_the_oldest_request_of_the_user_yields_after_its_time() {
    let bench = Bench::new(1);
    let first = bench.asking("ann", "a").await;
    // no call waits: the request stays open
    pass(SLOT_WAIT * 5).await;
    let _others = bench.fill("ann", 3).await;
    let mut third = bench.call("ann", "c").await;
    pass(just_before(SLOT_TIME)).await;
    assert!(bench.closed().is_empty(), "the time counts from when no process was free");
    pass(MOMENT).await;
    assert_eq!(bench.closed(), [0]);
    pass(Duration::from_secs(1)).await;
    assert_eq!(bench.closed(), [0], "one for one");
    bench.end(first).await;
    assert_eq!(third.given().await.unwrap().key().slot(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_leaves_or_gets_another_slot_closes_nothing() {
    let bench = Bench::new(1);
    let mut held = bench.fill("ann", 4).await;
    let third = bench.call("ann", "c").await;
    pass(SLOT_TIME / 2).await;
    third.abort().await;
    let mut fourth = bench.call("ann", "d").await;
    pass(SLOT_TIME / 2).await;
    assert!(bench.closed().is_empty(), "it has waited for half of the time");
    bench.end(held.remove(0)).await;
    assert!(fourth.given().await.is_some());
    pass(SLOT_TIME).await;
    assert!(bench.closed().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_user_with_many_calls_closes_no_request_of_another_user() {
    let bench = Bench::new(2);
    let _ann = bench.asking("ann", "a").await;
    let _held = bench.fill("hostile", 7).await;
    let mut crowd = Vec::new();
    for number in 0..20 {
        crowd.push(bench.call("hostile", &format!("more-{number}")).await);
    }
    pass(SLOT_TIME * 2).await;
    let mut closed = bench.closed();
    closed.sort_unstable();
    assert_eq!(closed, [1, 2, 3, 4, 5, 6, 7], "ann's is in slot 0");
}

#[tokio::test(start_paused = true)]
async fn a_user_who_holds_nothing_gets_the_slot_of_the_user_who_holds_the_most() {
    let bench = Bench::new(1);
    let _ann = bench.fill("ann", 1).await;
    let _hostile = bench.fill("hostile", 2).await;
    let _dave = bench.fill("dave", 1).await;
    let mut carol = bench.call("carol", "c").await;
    pass(RELIEF).await;
    let carol = carol.given().await.expect("the one that is kept");
    bench.ask(carol.key().slot());
    pass(RELIEF).await;
    let more = bench.call("hostile", "h-1").await;
    let bob = bench.call("bob", "b").await;
    pass(SLOT_TIME).await;
    let mut closed = bench.closed();
    closed.sort_unstable();
    assert_eq!(closed, [1, 2], "both of the user who held two, one for each call");
    more.abort().await;
    bob.abort().await;
}
