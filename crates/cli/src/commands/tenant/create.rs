//! `flovyn tenant create`

use clap::Args;
use serde::Serialize;

use crate::client::answers::{Answer, Tenant};
use crate::exit::Failure;
use crate::input::{self, Span};
use crate::remote::Session;
use crate::view::note;

#[derive(Args)]
#[command(after_help = "\
Needs a token with the role server-admin, a JWT or an API key of the server's configuration;
the token of `flovyn dev` has the role admin, which is not enough. Prints the tenant's id, which
is as good as its slug wherever a tenant is named. To use it, its workers need a token: see
`flovyn token create`.

Examples:
  flovyn tenant create acme --name 'Acme Inc.' --retention 30d
  flovyn token create worker --tenant acme")]
pub(crate) struct Create {
    /// Small letters, digits and hyphens; never changes.
    #[arg(value_parser = input::name)]
    slug: String,
    /// For people; the slug unless given.
    #[arg(long)]
    name: Option<String>,
    /// How long finished work is kept; unlimited unless given.
    #[arg(long, value_name = "DURATION")]
    retention: Option<Span>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    slug: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retention_ms: Option<i64>,
}

impl Create {
    pub(crate) async fn run(self, session: &Session) -> Result<(), Failure> {
        let retention_ms = self.retention.map(|Span(ms)| ms);
        let body = Body { slug: &self.slug, name: self.name.as_deref(), retention_ms };
        let tenant: Answer<Tenant> = session.client.post_to_root(&["api", "tenants"], &body).await?;
        if session.out.is_json() {
            return session.out.json(&tenant.sent);
        }
        session.out.line(&tenant.value.id)?;
        note(&format!("Make a token for its workers with: flovyn token create NAME --tenant {}", self.slug));
        Ok(())
    }
}
