//! Provisional starts: a worker receives the execution before its start is written.

use super::*;

const EXECUTION: u128 = 7;

/// A worker has received an execution whose start is not written.
fn notified(desk: &mut Desk) {
    desk.arrive([start("quick")]);
    let mut begin = desk.begins();
    assert_eq!(begin.runs, Runs::Here { notify: true });
    desk.tell(Event::Notified(vec![(Uuid::from_u128(EXECUTION), begin.jobs.remove(0))]));
}

#[test]
fn a_lone_start_is_written_together_with_its_first_step() {
    let mut desk = Desk::new(in_process());
    notified(&mut desk);
    assert_eq!(desk.waits(), Some(desk.now + PATIENCE));
    desk.arrive([step(EXECUTION, FirstStep::Made)]);
    let begin = desk.begins();
    assert_eq!((begin.runs, ids(&begin)), (Runs::Here { notify: false }, vec![1, 2]));
    desk.tell(Event::Written { requests: 2, took: None });
    notified(&mut desk);
}

#[test]
fn only_a_start_that_is_alone_is_handed_over_first() {
    for others in [vec![start("quick"); 2], vec![fake(1)], vec![claim(None, 1)]] {
        let mut desk = Desk::new(in_process());
        desk.arrive([start("quick")]);
        desk.arrive(others);
        assert_eq!(desk.begins().runs, Runs::Here { notify: false });
    }
    let mut elsewhere = Desk::new(elsewhere());
    elsewhere.arrive([start("quick")]);
    assert_eq!(elsewhere.begins().runs, Runs::Here { notify: false });
    let tricks = Tricks { first_steps: false, ..Tricks::default() };
    let mut without = Desk::new(InProcess { tricks, ..in_process() });
    without.arrive([start("quick")]);
    assert_eq!(without.begins().runs, Runs::Here { notify: false });
}

#[test]
fn a_first_step_that_is_late_or_released_is_not_waited_for_the_next_time() {
    for late in [true, false] {
        let mut desk = Desk::new(in_process());
        notified(&mut desk);
        if late {
            desk.now += PATIENCE;
        } else {
            desk.arrive([step(EXECUTION, FirstStep::Released)]);
        }
        assert_eq!(desk.begins().jobs[0].id, 1);
        desk.tell(Event::Written { requests: 1, took: None });
        desk.arrive([start("quick")]);
        assert_eq!(desk.begins().runs, Runs::Here { notify: false });
        desk.tell(Event::Written { requests: 1, took: None });
        desk.now += Duration::from_millis(100);
        notified(&mut desk);
    }
}

#[test]
fn nothing_runs_beside_a_start_that_a_worker_was_notified_of() {
    let mut desk = Desk::new(in_process());
    notified(&mut desk);
    desk.arrive(vec![fake(1); 2 * FULL]);
    let begin = desk.begins();
    assert_eq!((begin.runs, begin.jobs[0].id), (Runs::Here { notify: false }, 1));
    // A request that waits for its rows does not overtake the start either.
    let mut desk = Desk::new(in_process());
    notified(&mut desk);
    desk.arrive([Fake { misses: 5, ..fake(1) }]);
    let begin = desk.begins();
    assert_eq!((begin.runs, ids(&begin)), (Runs::Here { notify: false }, vec![1]));
    desk.tell(Event::Written { requests: 1, took: None });
    assert_eq!(desk.begins().runs, Runs::Alone);
}

#[test]
fn no_worker_is_notified_of_a_start_while_another_batch_is_in_flight() {
    let mut desk = Desk::new(in_process());
    desk.arrive(vec![fake(1); FULL + SECOND]);
    let first = desk.begins();
    desk.begins();
    desk.ends(first.batch, Ended { requests: FULL, ..Ended::default() });
    // This single request changes enough rows for a batch of its own.
    desk.arrive([Fake { rows: 2_000, ..start("quick") }]);
    assert!(matches!(desk.begins().runs, Runs::Beside { .. }));
}

#[test]
fn the_loop_stays_awake_for_a_first_step_so_many_turns() {
    let mut desk = Desk::new(InProcess { stays_awake_for: 3, ..in_process() });
    notified(&mut desk);
    for _ in 0..3 {
        assert!(matches!(desk.turn()[..], [Action::Yield]));
    }
    assert!(matches!(desk.turn()[..], [Action::Wait { .. }]));
}

#[test]
fn a_service_that_stops_writes_what_a_worker_was_notified_of() {
    let mut desk = Desk::new(in_process());
    notified(&mut desk);
    desk.tell(Event::Stopping);
    desk.tell(Event::Drained);
    assert_eq!(ids(&desk.begins()), [1]);
    desk.tell(Event::Written { requests: 1, took: None });
    assert!(matches!(desk.next(), Action::Finish));
}
