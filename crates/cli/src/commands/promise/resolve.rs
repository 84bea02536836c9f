//! `flovyn promise resolve`

use clap::Args;
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

use crate::exit::Failure;
use crate::input;
use crate::remote::Session;

#[derive(Args)]
#[command(after_help = "\
Examples:
  flovyn promise resolve key:expense-17 --value '{\"by\": \"Grace\"}'
  flovyn promise resolve 01a1e25a-8740-7f71-8773-3f921cc0de3c")]
pub(crate) struct Resolve {
    /// The promise's id, or `key:` followed by its key.
    #[arg(value_parser = input::name)]
    promise: String,
    /// Value as JSON, @FILE, or - for stdin. Default: null.
    #[arg(long, short, value_name = "JSON", value_parser = input::json)]
    value: Option<Box<RawValue>>,
}

#[derive(Serialize)]
struct Body<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<&'a RawValue>,
}

impl Resolve {
    pub(crate) async fn run(self, session: &Session) -> Result<(), Failure> {
        let body = Body { value: self.value.as_deref() };
        session.client.post::<()>(&["promises", &self.promise, "resolve"], &body).await?;
        let done = json!({ "promise": self.promise, "resolved": true });
        session.out.done(&done, &format!("Resolved {}.", self.promise))
    }
}
