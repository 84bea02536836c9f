//! PostgreSQL's own checks of its stored data: data checksums, and the extension `amcheck`.

use tokio_postgres::{Client, Error};

use crate::integrity::{Damage, Integrity, OnProgress, Progress};
use crate::port::StoreResult;
use crate::postgres::connect::{Connector, Purpose, spawn};
use crate::postgres::error;

/// The most findings for one table.
const MOST: i64 = 1_000;
const NO_RIGHT: &str = "42501";

/// The tables of the current schema and their B-tree indexes.
const RELATIONS: &str = "\
    SELECT c.oid, c.relkind = 'i', c.relname::text, coalesce(t.relname, c.relname)::text \
    FROM pg_class c LEFT JOIN pg_am a ON a.oid = c.relam \
    LEFT JOIN pg_index i ON i.indexrelid = c.oid LEFT JOIN pg_class t ON t.oid = i.indrelid \
    WHERE c.relnamespace = to_regnamespace(quote_ident(current_schema())) AND c.relpersistence = 'p' \
    AND (c.relkind = 'r' OR c.relkind = 'i' AND a.amname = 'btree' AND i.indisvalid AND i.indisready) \
    ORDER BY 4, 2, 3";

/// A table or an index.
struct Relation {
    oid: u32,
    is_index: bool,
    place: String,
}

pub(super) async fn check(connector: &Connector, on_progress: &OnProgress) -> StoreResult<Integrity> {
    let (client, connection) = connector.open(Purpose::Migration).await?;
    spawn(connection);
    let mut result = Integrity::default();
    look_at_checksums(&client, &mut result).await.map_err(|error| failed(&error))?;
    let relations = relations(&client).await.map_err(|error| failed(&error))?;
    let amcheck = match Amcheck::find(&client).await {
        Ok(amcheck) => amcheck,
        Err(error) if error.as_db_error().is_some() => {
            result.notes.push(skipped(&error));
            return Ok(result);
        }
        Err(error) => return Err(failed(&error)),
    };
    let of = Some(relations.len() as u64);
    for (done, relation) in (0..).zip(&relations) {
        on_progress(Progress { done, of, unit: "tables and indexes" });
        match amcheck.check(&client, relation).await {
            Ok(found) => result.damages.extend(found),
            Err(error) if error.code().is_some_and(|state| state.code() == NO_RIGHT) => {
                result.notes.push(skipped(&error));
                amcheck.end(&client).await.map_err(|error| failed(&error))?;
                return Ok(result);
            }
            Err(error) => result.damages.push(damage(relation, &error).ok_or_else(|| failed(&error))?),
        }
    }
    amcheck.end(&client).await.map_err(|error| failed(&error))?;
    result.checked = format!("{} tables and indexes", relations.len());
    Ok(result)
}

async fn look_at_checksums(client: &Client, result: &mut Integrity) -> Result<(), Error> {
    let row = client
        .query_one(
            "SELECT current_setting('data_checksums') = 'on', coalesce(max(checksum_failures), 0) \
             FROM pg_stat_database WHERE datname = current_database()",
            &[],
        )
        .await?;
    let (on, failures): (bool, i64) = (row.get(0), row.get(1));
    if failures > 0 {
        result.damages.push(Damage {
            place: "the database".to_owned(),
            page: None,
            what: format!("PostgreSQL has found {failures} pages with a wrong checksum; its log names them"),
        });
    }
    result.notes.push(match on {
        true => "data checksums are on: PostgreSQL detects a page that the disk has changed when it reads the page".to_owned(),
        false => "data checksums are off: PostgreSQL cannot detect all changes by the disk; switch them on with pg_checksums"
            .to_owned(),
    });
    Ok(())
}

async fn relations(client: &Client) -> Result<Vec<Relation>, Error> {
    let rows = client.query(RELATIONS, &[]).await?;
    let relation = |row: &tokio_postgres::Row| {
        let (is_index, name, table): (bool, String, String) = (row.get(1), row.get(2), row.get(3));
        let place = match is_index {
            true => format!("index {name} of table {table}"),
            false => format!("table {table}"),
        };
        Relation { oid: row.get(0), is_index, place }
    };
    Ok(rows.iter().map(relation).collect())
}

/// The extension `amcheck`.
struct Amcheck {
    /// Its schema, quoted.
    schema: String,
    /// The extension was created for this check, in a transaction that will be rolled back.
    for_now: bool,
}

impl Amcheck {
    /// # Errors
    /// Fails if the extension is not installed and cannot be installed.
    async fn find(client: &Client) -> Result<Self, Error> {
        let schema = "SELECT quote_ident(n.nspname) FROM pg_extension e JOIN pg_namespace n \
                      ON n.oid = e.extnamespace WHERE e.extname = 'amcheck'";
        if let Some(row) = client.query_opt(schema, &[]).await? {
            return Ok(Self { schema: row.get(0), for_now: false });
        }
        client.batch_execute("BEGIN").await?;
        if let Err(error) = client.batch_execute("CREATE EXTENSION amcheck").await {
            client.batch_execute("ROLLBACK").await?;
            return Err(error);
        }
        let row = client.query_one(schema, &[]).await?;
        Ok(Self { schema: row.get(0), for_now: true })
    }

    async fn check(&self, client: &Client, relation: &Relation) -> Result<Vec<Damage>, Error> {
        if self.for_now {
            client.batch_execute("SAVEPOINT before_check").await?;
        }
        let found = self.run(client, relation).await;
        if self.for_now {
            client.batch_execute("ROLLBACK TO before_check").await?;
        }
        found
    }

    async fn run(&self, client: &Client, relation: &Relation) -> Result<Vec<Damage>, Error> {
        let schema = &self.schema;
        if relation.is_index {
            let text = format!("SELECT {schema}.bt_index_check($1::oid::regclass, true)");
            client.query(&text, &[&relation.oid]).await?;
            return Ok(Vec::new());
        }
        let text = format!(
            "SELECT blkno, msg FROM {schema}.verify_heapam($1::oid::regclass, check_toast => true) LIMIT $2"
        );
        let rows = client.query(&text, &[&relation.oid, &MOST]).await?;
        let damage = |row: &tokio_postgres::Row| Damage {
            place: relation.place.clone(),
            page: row.get::<_, Option<i64>>(0).and_then(|page| page.try_into().ok()),
            what: row.get::<_, Option<String>>(1).unwrap_or_default(),
        };
        Ok(rows.iter().map(damage).collect())
    }

    async fn end(&self, client: &Client) -> Result<(), Error> {
        if self.for_now { client.batch_execute("ROLLBACK").await } else { Ok(()) }
    }
}

/// The damage that an error during the check reports. `None` if the error is not an answer of PostgreSQL.
fn damage(relation: &Relation, error: &Error) -> Option<Damage> {
    let answer = error.as_db_error()?;
    let detail = answer.detail().unwrap_or_default();
    Some(Damage {
        place: relation.place.clone(),
        page: page_in(answer.message()).or_else(|| page_in(detail)),
        what: answer.message().to_owned(),
    })
}

/// The first page that a message names: `tid=(7,2)` or `block 7`. `None` if it names no page.
fn page_in(text: &str) -> Option<u64> {
    let rest = ["tid=(", "block "].iter().find_map(|mark| text.split_once(mark)).map(|(_, rest)| rest)?;
    let digits = rest.find(|sign: char| !sign.is_ascii_digit()).unwrap_or(rest.len());
    rest[..digits].parse().ok()
}

fn skipped(why: &Error) -> String {
    format!(
        "skipped: tables and indexes were not checked page by page, because amcheck cannot be used ({}); a superuser \
         has to run CREATE EXTENSION amcheck and the doctor",
        error::describe(why, "amcheck")
    )
}

fn failed(error: &Error) -> crate::port::StoreError {
    error::from_driver(error, "check the database")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_read_from_messages() {
        assert_eq!(page_in("Lower index tid=(7,2) (points to heap tid=(0,3))"), Some(7));
        assert_eq!(page_in("invalid page in block 12 of relation base/1/2"), Some(12));
        assert_eq!(page_in("relation is odd"), None);
    }
}
