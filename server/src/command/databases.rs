//! Chooses, counts, empties and swaps whole databases.

use quipu::Bounds;

use super::{Call, CommandResult, EntityCall, Handler, Refusal, entity_handler, is_word, refusal};
use crate::entities::Entities;
use crate::facts::Spec;
use crate::keyspace::DATABASES;
use crate::resp::number::parse_i64;

/// The handlers of the family.
pub(super) const HANDLERS: &[Handler] = &[
    Handler::new("select", select),
    entity_handler!("dbsize", dbsize),
    Handler::new("flushdb", flush_db),
    Handler::new("flushall", flush_all),
    Handler::new("swapdb", swap),
];

/// The database that a word names.
pub fn database_number(word: &[u8]) -> Result<usize, Refusal> {
    let number = parse_i64(word).ok_or(refusal::NOT_INTEGER)?;
    if i32::try_from(number).is_err() {
        return Err(Refusal::new(format!(
            "ERR value is out of range, value must between {} and {}",
            i32::MIN,
            i32::MAX
        )));
    }
    in_range(number)
}

fn in_range(number: i64) -> Result<usize, Refusal> {
    usize::try_from(number)
        .ok()
        .filter(|number| *number < DATABASES)
        .ok_or(refusal::text("ERR DB index is out of range"))
}

/// The databases that a command is about to use besides the session's: they are prepared before it runs. Those
/// that it refuses are left out.
pub fn databases_named(spec: &Spec, args: &[&[u8]]) -> [Option<usize>; 2] {
    let named = |place: usize| args.get(place).and_then(|word| database_number(word).ok());
    match spec.name {
        "select" => [named(1), None],
        "move" => [named(2), None],
        "swapdb" => [named(1), named(2)],
        "copy" => {
            // The last one counts.
            let option = args.iter().rposition(|word| is_word(word, "db")).filter(|place| *place > 2);
            [option.and_then(|place| named(place + 1)), None]
        }
        _ => [None, None],
    }
}

fn select(call: &mut Call<'_, '_>) -> CommandResult {
    call.session.database = database_number(call.args[1])?;
    call.reply.ok();
    Ok(())
}

fn dbsize<E: Entities>(call: &mut EntityCall<'_, E>) -> CommandResult {
    let rows = call.entities.count(Some(&Bounds::from(..)))?;
    call.reply.integer(rows as i64);
    Ok(())
}

/// Whether the words after the name are allowed. All keys are removed before the answer in any case.
fn check_flush(args: &[&[u8]]) -> CommandResult {
    match args[1..] {
        [] => Ok(()),
        [how] if is_word(how, "async") || is_word(how, "sync") => Ok(()),
        _ => Err(refusal::SYNTAX),
    }
}

fn flush_db(call: &mut Call<'_, '_>) -> CommandResult {
    check_flush(call.args)?;
    call.data.clear(call.session.database)?;
    call.reply.ok();
    Ok(())
}

fn flush_all(call: &mut Call<'_, '_>) -> CommandResult {
    check_flush(call.args)?;
    for database in 0..DATABASES {
        call.data.clear(database)?;
    }
    // As Redis does, which saves the empty data then, if it saves by itself.
    if call.server.config.parameters.get("save").is_some_and(|points| !points.is_empty()) {
        call.server.saves.note_empty(call.data.changes());
    }
    call.reply.ok();
    Ok(())
}

fn swap(call: &mut Call<'_, '_>) -> CommandResult {
    let number = |word, invalid: &'static str| {
        let number = parse_i64(word).filter(|number| i32::try_from(*number).is_ok());
        number.ok_or(refusal::text(invalid))
    };
    let first = number(call.args[1], "ERR invalid first DB index")?;
    let second = number(call.args[2], "ERR invalid second DB index")?;
    let (first, second) = (in_range(first)?, in_range(second)?);
    if first != second {
        call.data.swap(first, second)?;
    }
    call.reply.ok();
    Ok(())
}
