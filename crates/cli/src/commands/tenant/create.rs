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
Needs a JWT or an API key with the role server-admin. The token of `flovyn dev` has only the
role admin. Prints the tenant's id, which can be used instead of its slug everywhere. The
tenant's workers need a token: see `flovyn token create`.

Examples:
  flovyn tenant create acme --name 'Acme Inc.' --retention 30d
  flovyn token create worker --tenant acme")]
pub(crate) struct Create {
    /// Small letters, digits and hyphens. It can never be changed.
    #[arg(value_parser = input::name)]
    slug: String,
    /// Display name. Default: the slug.
    #[arg(long)]
    name: Option<String>,
    /// How long finished work is kept. Default: unlimited.
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
        note(&format!(
            "Create a token for its workers with: flovyn token create NAME --tenant {}",
            self.slug
        ));
        Ok(())
    }
}
