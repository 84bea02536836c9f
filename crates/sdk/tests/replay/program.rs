//! Random programs: the actions of a workflow as data, with a proptest strategy that generates them.

use proptest::prelude::*;

/// Commands of the context. Each adds its future to the pool.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Start {
    /// A blocking step, or an async step.
    Run(u8, bool),
    /// 0 succeeds, 1 fails, 2 never ends.
    Task(u8),
    Timer(u8),
    Signal(u8),
    /// 0 succeeds, 1 fails, 2 never ends, as for tasks.
    Child(u8),
    /// With or without a timeout.
    Promise(u8, bool),
    Cancellation,
}

/// How two futures are awaited.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Style {
    Flovyn,
    Tokio,
    Futures,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    /// Emits a command, with a shielded context or without.
    Start(Start, bool),
    Await(u8),
    Drop(u8),
    Cancel(u8),
    /// Polls a future once and keeps it.
    Peek(u8),
    /// The loser is kept or passed by value. By value, the SDK's functions cancel it; other functions drop it.
    Select(u8, u8, Style, bool),
    Join(u8, u8, Style),
    /// Awaits several futures of the whole pool in the order in which they complete, and drops the rest.
    Unordered(u8),
    /// The future is kept or passed by value.
    WithTimeout(u8, u8, bool),
    SetState(u8),
    ClearState(u8),
    GetState(u8),
    Uuid,
    Random,
    Now,
    HasSignal(u8),
    Drain(u8),
    /// The branch depends on everything seen so far.
    Branch(Vec<Step>, Vec<Step>),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Program {
    pub steps: Vec<Step>,
    /// Whether a program ends as cancelled after a cancel request.
    pub obeys: bool,
}

/// Events from outside.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Outside {
    Signal(u8),
    SignalMeanwhile(u8),
    Answer(u8, bool),
    Cancel,
    CancelMeanwhile,
    Settle,
    /// Advances virtual time.
    Finish,
}

fn start() -> impl Strategy<Value = Start> {
    prop_oneof![
        4 => (0..5_u8, any::<bool>()).prop_map(|(n, async_)| Start::Run(n, async_)),
        4 => (0..3_u8).prop_map(Start::Task),
        3 => (1..9_u8).prop_map(Start::Timer),
        3 => (0..2_u8).prop_map(Start::Signal),
        2 => (0..3_u8).prop_map(Start::Child),
        2 => (0..2_u8, any::<bool>()).prop_map(|(n, timeout)| Start::Promise(n, timeout)),
        1 => Just(Start::Cancellation),
    ]
}

fn style() -> impl Strategy<Value = Style> {
    prop_oneof![Just(Style::Flovyn), Just(Style::Tokio), Just(Style::Futures)]
}

fn leaf() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (start(), prop::bool::weighted(0.2)).prop_map(|(start, shielded)| Step::Start(start, shielded)),
        5 => any::<u8>().prop_map(Step::Await),
        2 => any::<u8>().prop_map(Step::Drop),
        2 => any::<u8>().prop_map(Step::Cancel),
        2 => any::<u8>().prop_map(Step::Peek),
        4 => (any::<u8>(), any::<u8>(), style(), any::<bool>())
            .prop_map(|(a, b, style, keep)| Step::Select(a, b, style, keep)),
        3 => (any::<u8>(), any::<u8>(), style()).prop_map(|(a, b, style)| Step::Join(a, b, style)),
        1 => any::<u8>().prop_map(Step::Unordered),
        2 => (any::<u8>(), 1..9_u8, any::<bool>()).prop_map(|(a, ms, keep)| Step::WithTimeout(a, ms, keep)),
        2 => (0..2_u8).prop_map(Step::SetState),
        1 => (0..2_u8).prop_map(Step::ClearState),
        1 => (0..2_u8).prop_map(Step::GetState),
        1 => Just(Step::Uuid),
        1 => Just(Step::Random),
        1 => Just(Step::Now),
        1 => (0..2_u8).prop_map(Step::HasSignal),
        1 => (0..2_u8).prop_map(Step::Drain),
    ]
}

pub(crate) fn step() -> impl Strategy<Value = Step> {
    let steps = || prop::collection::vec(leaf(), 0..4);
    prop_oneof![6 => leaf(), 1 => (steps(), steps()).prop_map(|(a, b)| Step::Branch(a, b))]
}

pub(crate) fn program() -> impl Strategy<Value = Program> {
    (prop::collection::vec(step(), 1..24), any::<bool>()).prop_map(|(steps, obeys)| Program { steps, obeys })
}

pub(crate) fn outside() -> impl Strategy<Value = Vec<Outside>> {
    let one = prop_oneof![
        4 => (0..2_u8).prop_map(Outside::Signal),
        2 => (0..2_u8).prop_map(Outside::SignalMeanwhile),
        3 => (0..2_u8, any::<bool>()).prop_map(|(n, good)| Outside::Answer(n, good)),
        1 => Just(Outside::Cancel),
        1 => Just(Outside::CancelMeanwhile),
        2 => Just(Outside::Settle),
        3 => Just(Outside::Finish),
    ];
    prop::collection::vec(one, 0..12)
}
