//! The generated code of the attributes, and their errors.

use super::*;

fn task_error(options: &str, item: &str) -> String {
    expand_task(options.parse().unwrap(), item.parse().unwrap()).unwrap_err().to_string()
}

fn workflow_error(options: &str, item: &str) -> String {
    expand_workflow(options.parse().unwrap(), item.parse().unwrap()).unwrap_err().to_string()
}

const GOOD: &str = "async fn charge_card(ctx: TaskContext, input: Order) -> Result<Receipt> { Ok(Receipt) }";

/// Without white space, which the formatter of tokens chooses.
fn task_code(options: &str, item: &str) -> String {
    let code = expand_task(options.parse().unwrap(), item.parse().unwrap()).unwrap();
    code.to_string().split_whitespace().collect()
}

#[test]
fn names_come_from_the_function() {
    let code = task_code("", GOOD);
    assert!(code.contains("structChargeCard;"), "{code}");
    assert!(code.contains("constKIND:&'staticstr=\"charge-card\";"), "{code}");
    assert!(!code.contains("fnoptions"), "the trait's default stays: {code}");
    let code = task_code("kind = \"pay\", name = Pay", GOOD);
    assert!(code.contains("structPay;") && code.contains("=\"pay\";"), "{code}");
    let code = task_code("", "async fn r#match(_: TaskContext, _: ()) -> Result<()> { Ok(()) }");
    assert!(code.contains("structMatch;") && code.contains("=\"match\";"), "{code}");
}

#[test]
fn documentation_visibility_and_conditions_are_carried_over() {
    let code = task_code("", &format!("/// Charges.\n #[cfg(unix)] #[inline] pub(crate) {GOOD}"));
    assert_eq!(code.matches("#[doc=\"Charges.\"]").count(), 2, "{code}");
    assert_eq!(code.matches("#[cfg(unix)]").count(), 3, "{code}");
    assert_eq!(code.matches("#[inline]").count(), 1, "only on the function: {code}");
    assert!(code.contains("pub(crate)structChargeCard;"), "{code}");
}

#[test]
fn options_become_task_options() {
    let code = task_code(
        "queue = \"bank\", max_retries = 5, timeout_secs = 30, total_timeout_secs = 60, schedule_to_start_secs = 7, \
         heartbeat_timeout_secs = 8,",
        GOOD,
    );
    for expected in [
        "queue:::core::option::Option::Some(::std::string::String::from(\"bank\"))",
        "max_retries:::core::option::Option::Some(5u32)",
        ",timeout:::core::option::Option::Some(::core::time::Duration::from_secs(30u64))",
        "total_timeout:::core::option::Option::Some(::core::time::Duration::from_secs(60u64))",
        "schedule_to_start:::core::option::Option::Some(::core::time::Duration::from_secs(7u64))",
        "heartbeat_timeout:::core::option::Option::Some(::core::time::Duration::from_secs(8u64))",
    ] {
        assert!(code.contains(expected), "{expected} is not in {code}");
    }
}

#[test]
fn a_part_of_the_retry_policy_leaves_the_rest_at_its_default() {
    let code = task_code("retry_initial_ms = 100, retry_factor = 3", GOOD);
    let expected = "retry:::core::option::Option::Some(::flovyn_sdk::RetryPolicy{initial:::core::time::Duration::from_millis(\
                    100u64),factor:3f64,..::core::default::Default::default()})";
    assert!(code.contains(expected), "{code}");
}

fn tasks_error(options: &str, item: &str) -> String {
    crate::tasks::expand_tasks(options.parse().unwrap(), item.parse().unwrap()).unwrap_err().to_string()
}

#[test]
fn an_impl_block_that_cannot_be_tasks_is_refused() {
    let cases = [
        ("fn f() {}", "#[tasks] belongs on an impl block: expected `impl`"),
        ("impl Clone for Bank {}", "#[tasks] belongs on an impl block of the type itself, not of a trait"),
        (
            "impl<T> Bank<T> {}",
            "#[tasks] cannot be generic: its tasks are kinds, known to the server by their names",
        ),
        ("impl Bank { fn helper(&self) {} }", "#[tasks] found no task: write #[task] on its methods"),
        (
            "impl Bank { #[task] async fn pay(ctx: TaskContext, n: u8) -> Result<u8> {} }",
            "a task of #[tasks] takes `&self` first; without it, write #[task] on a free function",
        ),
        (
            "impl Bank { #[task] async fn pay(&mut self, ctx: TaskContext, n: u8) -> Result<u8> {} }",
            "#[task] takes `&self`: attempts run in parallel",
        ),
        (
            "impl Bank { #[task(retries = 1)] async fn pay(&self, ctx: TaskContext, n: u8) -> Result<u8> {} }",
            "#[task] has no option `retries`",
        ),
        (
            "impl Bank { #[task] async fn bank(&self, ctx: TaskContext, n: u8) -> Result<u8> {} }",
            "the definition would be called `Bank`",
        ),
        ("impl Bank { #[task] fn pay(&self) {} }", "#[task] needs an async function: write `async fn`"),
    ];
    for (item, message) in cases {
        assert!(tasks_error("", item).starts_with(message), "{item}: {}", tasks_error("", item));
    }
    let message = "#[tasks] has no options: options belong in the #[task] of a method";
    assert_eq!(tasks_error("kind = \"a\"", "impl Bank {}"), message);
}

#[test]
fn functions_that_cannot_be_one_are_refused() {
    let cases = [
        (
            "fn f(ctx: TaskContext, n: u8) -> Result<u8> {}",
            "#[task] needs an async function: write `async fn`",
        ),
        (
            "async fn f(ctx: TaskContext) -> Result<u8> {}",
            "#[task] takes two arguments, `ctx: TaskContext` and its input, not 1; without an input, take `_: ()`",
        ),
        (
            "async fn f(ctx: TaskContext, a: u8, b: u8) -> Result<u8> {}",
            "#[task] takes two arguments, `ctx: TaskContext` and its input, not 3; without an input, take `_: ()`",
        ),
        (
            "async fn f(ctx: TaskContext, n: u8) {}",
            "#[task] returns a result: write `-> flovyn_sdk::Result<Output>`, with `()` for no output",
        ),
        (
            "async fn f<T>(ctx: TaskContext, n: T) -> Result<u8> {}",
            "#[task] cannot be generic: one function is one kind, known to the server by its name",
        ),
        (
            "async fn f(&self, n: u8) -> Result<u8> {}",
            "#[task] on a method needs #[tasks] on its impl block; or move it out and remove `self`",
        ),
        (
            "async fn f(ctx: &TaskContext, n: u8) -> Result<u8> {}",
            "#[task] takes its arguments by value: remove the `&`",
        ),
        ("struct F;", "#[task] belongs on an async function: expected `fn`"),
        (
            "async fn _1(ctx: TaskContext, n: u8) -> Result<u8> {}",
            "cannot derive a name for the definition from `_1`: add `name = ...`",
        ),
    ];
    for (item, message) in cases {
        assert_eq!(task_error("", item), message, "{item}");
    }
}

#[test]
fn a_name_that_is_taken_by_the_types_is_refused() {
    let message =
        "the definition would be called `Charge`, like this type: choose another name with `name = ...`";
    let charge = "async fn charge(ctx: TaskContext, input: Charge) -> Result<Receipt> {}";
    assert_eq!(task_error("", charge), message);
    assert_eq!(task_error("", "async fn charge(_: TaskContext, _: ()) -> Result<Vec<Charge>> {}"), message);
    assert!(expand_task("name = ChargeCard".parse().unwrap(), charge.parse().unwrap()).is_ok());
}

#[test]
fn options_that_cannot_be_are_refused() {
    let cases = [
        (
            "retries = 5",
            "#[task] has no option `retries`; it has: kind, name, queue, max_retries, timeout_secs, \
             total_timeout_secs, schedule_to_start_secs, heartbeat_timeout_secs, retry_initial_ms, retry_factor, \
             retry_cap_ms",
        ),
        (
            "retry_factor = 0.5",
            "this must be from 1 to 100: each delay is the previous one times this factor",
        ),
        ("retry_factor = \"2\"", "expected a number such as `2` or `1.5`"),
        ("retry_initial_ms = 0", "this must be at least 1; leave the option out for its default"),
        ("kind = \"a\", kind = \"b\"", "`kind` is given twice: remove one"),
        ("kind = \" \"", "this is empty: give it a value, or leave the option out"),
        ("timeout_secs = 0", "this must be at least 1; leave the option out for its default"),
        ("max_retries = \"5\"", "expected integer literal"),
        ("kind = 5", "expected string literal"),
        ("kind \"a\"", "expected `=`"),
        ("kind = \"a\" name = B", "expected `,`"),
    ];
    for (options, message) in cases {
        assert_eq!(task_error(options, GOOD), message, "{options}");
    }
}

#[test]
fn a_workflow_speaks_of_itself() {
    let good = "async fn f(ctx: WorkflowContext, n: u8) -> Result<u8> {}";
    assert_eq!(
        workflow_error("max_retries = 1", good),
        "#[workflow] has no option `max_retries`; it has: kind, version, name, cancel_grace"
    );
    assert_eq!(
        workflow_error("", "async fn f() -> Result<u8> {}"),
        "#[workflow] takes two arguments, `ctx: WorkflowContext` and its input, not 0; without an input, take `_: ()`"
    );
    let code = expand_workflow("version = \"2\"".parse().unwrap(), good.parse().unwrap()).unwrap();
    assert!(code.to_string().contains("Some (\"2\")"), "{code}");
    assert!(!code.to_string().contains("CANCEL_GRACE"), "{code}");
    for (grace, ms) in [("0s", 0), ("90s", 90_000), ("10m", 600_000), ("2h", 7_200_000), ("1d", 86_400_000)] {
        let options = format!("cancel_grace = \"{grace}\"");
        let code = expand_workflow(options.parse().unwrap(), good.parse().unwrap()).unwrap().to_string();
        assert!(code.contains(&format!("from_millis ({ms}u64)")), "{code}");
    }
    for grace in [
        "",
        "m",
        "10",
        "10 m",
        "-1s",
        "1.5h",
        "10ms",
        "1\u{e4}",
        "99999999999999999999d",
        "18446744073709551615d",
    ] {
        let message = workflow_error(&format!("cancel_grace = \"{grace}\""), good);
        assert_eq!(message, "expected a number with s, m, h or d, such as \"10m\"", "{grace}");
    }
}
