//! The attributes `#[workflow]`, `#[task]` and `#[tasks]`, which turn plain async functions into definitions. Use
//! them through `flovyn_sdk`.
//!
//! - `options`: the options in the parentheses of the attribute.
//! - `function`: the function below the attribute, and whether it can be a workflow or a task.
//! - `expand`: the generated definition. `tasks`: the definitions of an impl block.
//!
//! The macros check names only, never types: type errors are left to the compiler.

mod expand;
mod function;
mod options;
mod tasks;

use proc_macro::TokenStream;
use proc_macro2::TokenStream as TokenStream2;

use crate::expand::{expand_task, expand_workflow};
use crate::tasks::expand_tasks;

/// Turns an async function into a workflow. Generates a unit struct that implements `WorkflowDefinition`.
///
/// ```text
/// /// Greets somebody.
/// #[workflow]
/// async fn greet_person(ctx: WorkflowContext, name: String) -> Result<String> {
///     ctx.schedule::<ComposeGreeting>(name).await
/// }
/// ```
///
/// generates `GreetPerson` with the kind `greet-person` and the visibility of the function. The function itself does
/// not change.
///
/// | option | default |
/// |---|---|
/// | `kind = "..."` | the function's name in kebab-case |
/// | `version = "..."` | none |
/// | `name = Ident` | the function's name in `UpperCamelCase` |
/// | `cancel_grace = "10m"` | no limit for clean-up after a cancel request while it makes progress |
#[proc_macro_attribute]
pub fn workflow(options: TokenStream, item: TokenStream) -> TokenStream {
    finish(item.clone().into(), expand_workflow(options.into(), item.into()))
}

/// Turns an async function into a task. Generates a unit struct that implements `TaskDefinition`.
///
/// ```text
/// #[task(kind = "charge-card", max_retries = 5, timeout_secs = 30)]
/// async fn charge(ctx: TaskContext, order: Order) -> Result<Receipt> {
///     bank::charge(&order, ctx.idempotency_key()).await
/// }
/// ```
///
/// generates `Charge` with the kind `charge-card` and the visibility of the function. The function itself does not
/// change.
///
/// | option | default |
/// |---|---|
/// | `kind = "..."` | the function's name in kebab-case |
/// | `name = Ident` | the function's name in `UpperCamelCase` |
/// | `queue = "..."` | the workflow's queue |
/// | `max_retries = N`: maximum number of attempts | 3 |
/// | `timeout_secs = N`: time limit of one attempt | none |
/// | `total_timeout_secs = N`: time limit of all attempts together | none |
/// | `schedule_to_start_secs = N`: maximum wait for a worker | no limit |
/// | `heartbeat_timeout_secs = N`: maximum time between heartbeats | no limit |
/// | `retry_initial_ms = N`: delay before the second attempt | 1000 |
/// | `retry_factor = N`: factor between one delay and the next | 2 |
/// | `retry_cap_ms = N`: maximum delay | 60000 |
#[proc_macro_attribute]
pub fn task(options: TokenStream, item: TokenStream) -> TokenStream {
    finish(item.clone().into(), expand_task(options.into(), item.into()))
}

/// Turns the methods with `#[task]` of an impl block into tasks. Use it for tasks that need a database pool, a client
/// or another dependency.
///
/// ```text
/// #[tasks]
/// impl Bank {
///     #[task(max_retries = 5, retry_initial_ms = 100)]
///     async fn charge(&self, ctx: TaskContext, order: Order) -> Result<Receipt> {
///         self.pool.charge(&order, ctx.idempotency_key()).await
///     }
/// }
/// ```
///
/// generates `Charge` with the visibility of the method. `.tasks(Bank::new(pool))` registers all tasks of the block
/// at once. A workflow schedules `Charge` like any other task: `ctx.schedule::<Charge>(order)`. The options are those
/// of `#[task]`. Methods without `#[task]` do not change.
#[proc_macro_attribute]
pub fn tasks(options: TokenStream, item: TokenStream) -> TokenStream {
    finish(item.clone().into(), expand_tasks(options.into(), item.into()))
}

/// Adds the error to the unchanged item, so that it is the only error and editors keep working inside the function.
fn finish(item: TokenStream2, expanded: syn::Result<TokenStream2>) -> TokenStream {
    let tokens = expanded.unwrap_or_else(|error| {
        let mut tokens = error.into_compile_error();
        tokens.extend(item);
        tokens
    });
    tokens.into()
}
