//! The attributes `#[workflow]`, `#[task]` and `#[tasks]`: a plain async function is enough. Use them through `flovyn_sdk`.
//!
//! - `options`: what stands in the parentheses of the attribute.
//! - `function`: what stands below it, and whether it can be a workflow or a task.
//! - `expand`: the definition that is made of both. `tasks`: those of an impl block.
//!
//! They know names only, never types: what the compiler can say about types it says better.

mod expand;
mod function;
mod options;
mod tasks;

use proc_macro::TokenStream;
use proc_macro2::TokenStream as TokenStream2;

use crate::expand::{expand_task, expand_workflow};
use crate::tasks::expand_tasks;

/// Makes a workflow of an async function: a unit struct that implements `WorkflowDefinition`.
///
/// ```text
/// /// Greets somebody.
/// #[workflow]
/// async fn greet_person(ctx: WorkflowContext, name: String) -> Result<String> {
///     ctx.schedule::<ComposeGreeting>(name).await
/// }
/// ```
///
/// makes `GreetPerson` with the kind `greet-person`, as visible as the function, which itself stays as it is.
///
/// | option | default |
/// |---|---|
/// | `kind = "..."` | the function's name in kebab-case |
/// | `version = "..."` | none |
/// | `name = Ident` | the function's name in `UpperCamelCase` |
/// | `cancel_grace = "10m"` | clean-up after a cancel request may take as long as it makes progress |
#[proc_macro_attribute]
pub fn workflow(options: TokenStream, item: TokenStream) -> TokenStream {
    finish(item.clone().into(), expand_workflow(options.into(), item.into()))
}

/// Makes a task of an async function: a unit struct that implements `TaskDefinition`.
///
/// ```text
/// #[task(kind = "charge-card", max_retries = 5, timeout_secs = 30)]
/// async fn charge(ctx: TaskContext, order: Order) -> Result<Receipt> {
///     bank::charge(&order, ctx.idempotency_key()).await
/// }
/// ```
///
/// makes `Charge` with the kind `charge-card`, as visible as the function, which itself stays as it is.
///
/// | option | default |
/// |---|---|
/// | `kind = "..."` | the function's name in kebab-case |
/// | `name = Ident` | the function's name in `UpperCamelCase` |
/// | `queue = "..."` | the workflow's queue |
/// | `max_retries = N`: how often it runs at most | 3 |
/// | `timeout_secs = N`: for one attempt | none |
/// | `total_timeout_secs = N`: across all attempts | none |
/// | `schedule_to_start_secs = N`: waiting for a worker | without end |
/// | `heartbeat_timeout_secs = N`: between heartbeats | without end |
/// | `retry_initial_ms = N`: before the second attempt | 1000 |
/// | `retry_factor = N`: each further delay is so many times the one before | 2 |
/// | `retry_cap_ms = N`: the longest delay | 60000 |
#[proc_macro_attribute]
pub fn task(options: TokenStream, item: TokenStream) -> TokenStream {
    finish(item.clone().into(), expand_task(options.into(), item.into()))
}

/// Makes tasks of the methods of an impl block that have `#[task]`: for tasks that need a database pool, a client or the like.
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
/// makes `Charge`, as visible as the method, and lets `.tasks(Bank::new(pool))` register all tasks of the block at once. A
/// workflow schedules it like any other: `ctx.schedule::<Charge>(order)`. The options are those of `#[task]`. Methods without
/// `#[task]` stay what they are.
#[proc_macro_attribute]
pub fn tasks(options: TokenStream, item: TokenStream) -> TokenStream {
    finish(item.clone().into(), expand_tasks(options.into(), item.into()))
}

/// An error stands beside the untouched item, so that it is the only one and editors go on helping inside the function.
fn finish(item: TokenStream2, expanded: syn::Result<TokenStream2>) -> TokenStream {
    let tokens = expanded.unwrap_or_else(|error| {
        let mut tokens = error.into_compile_error();
        tokens.extend(item);
        tokens
    });
    tokens.into()
}
