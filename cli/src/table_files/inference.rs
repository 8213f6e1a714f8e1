//! The first pass of an import: which columns a file has, and of what types.

use quipu_rows::{Column, DataType, text_of};

use crate::failure::{Failure, Result};
use crate::progress;
use crate::table_files::column_types::Evidence;
use crate::table_files::files::Source;
use crate::table_files::notation::{CommaSigns, DateSigns, Notation, Notations, WordSigns, with_point};
use crate::table_files::records::{At, CsvNotation, Field, Format, Records};

/// How many records are read between two steps of a progress bar.
const STEP_RECORDS: u64 = 4096;

/// The columns of a file.
pub(crate) struct Found {
    pub(crate) columns: Vec<Column>,
    /// What a person would like to know of their types.
    pub(crate) notes: Vec<String>,
    /// How the fields of those are written whose type was found.
    pub(crate) notations: Vec<(String, Notation)>,
}

/// What all fields of a column look like.
struct Look {
    /// As Quipu writes them.
    plain: Evidence,
    /// As the user says that they are written; none if the user says nothing.
    asked: Option<(Notation, Evidence)>,
    /// As numbers with a decimal comma, in files whose fields stand between other characters, where all may be such.
    comma: Option<(CommaSigns, Evidence)>,
    dates: Signs<DateSigns>,
    words: Signs<WordSigns>,
}

/// What the fields of a column say together.
#[derive(Clone, Copy)]
enum Signs<S> {
    /// There was no field.
    Unseen,
    Seen(S),
    /// One of them says that the column is something else.
    Refuted,
}

impl<S: Copy> Signs<S> {
    fn see(&mut self, of: impl FnOnce() -> Option<S>, and: impl FnOnce(S, S) -> Option<S>) {
        *self = match self {
            Signs::Unseen => of().map_or(Signs::Refuted, Signs::Seen),
            Signs::Seen(all) => of().and_then(|one| and(*all, one)).map_or(Signs::Refuted, Signs::Seen),
            Signs::Refuted => Signs::Refuted,
        }
    }

    fn all(self) -> Option<S> {
        match self {
            Signs::Seen(all) => Some(all),
            _ => None,
        }
    }
}

impl Look {
    /// At a column of this name, in a file whose fields stand between this.
    fn new(name: &str, delimiter: u8, notations: &Notations) -> Look {
        let asked = notations.asked(name);
        Look {
            plain: Evidence::default(),
            comma: (delimiter != b',' && !asked.decimal_comma).then(Default::default),
            dates: if asked.dates.is_none() { Signs::Unseen } else { Signs::Refuted },
            words: if asked.booleans.is_none() { Signs::Unseen } else { Signs::Refuted },
            asked: (!asked.is_plain()).then(|| (asked, Evidence::default())),
        }
    }

    /// Looks at a field; `place` says where it stands.
    fn see(&mut self, text: &str, place: impl Fn() -> String) {
        self.plain.see_text(text, &place);
        if let Some((notation, evidence)) = &mut self.asked {
            match notation.rewritten(text) {
                Some(text) => evidence.see_text(&text, &place),
                None => evidence.refuse(text, &place),
            }
        }
        if let Some((signs, evidence)) = &mut self.comma {
            match with_point(text) {
                Some(number) => {
                    signs.see(text);
                    evidence.see_text(&number, &place);
                }
                None => self.comma = None,
            }
        }
        self.dates.see(|| DateSigns::of(text), DateSigns::and);
        self.words.see(|| WordSigns::of(text), WordSigns::and);
    }

    /// The type of numbers with a decimal comma, if the column can be nothing else.
    fn of_commas(&self) -> Option<DataType> {
        let (signs, evidence) = self.comma.as_ref()?;
        let data_type = evidence.data_type();
        let is_text = |data_type| matches!(data_type, DataType::Text(_));
        (signs.are_decisive() && is_text(self.plain.data_type()) && !is_text(data_type)).then_some(data_type)
    }

    /// What to know of a column whose type is that which plain fields make.
    fn note(&self, name: &str) -> Option<String> {
        let of_asked = self.asked.as_ref().and_then(|(_, evidence)| evidence.note(name));
        of_asked.or_else(|| self.hint(name)).or_else(|| self.plain.note(name))
    }

    /// Which option would make something else than text of the column.
    fn hint(&self, name: &str) -> Option<String> {
        if !matches!(self.plain.data_type(), DataType::Text(_)) {
            return None;
        }
        let is_number = |(_, evidence): &&(CommaSigns, Evidence)| !matches!(evidence.data_type(), DataType::Text(_));
        let option = if let Some(signs) = self.dates.all() {
            let formats = signs.formats();
            match formats.contains(" or ") {
                true => format!("its fields may be dates; `--date-format` says whether as {formats}"),
                false => format!("its fields may be dates; `--date-format {formats}` reads them so"),
            }
        } else if let Some(words) = self.words.all().and_then(WordSigns::words) {
            format!("`--booleans {words}` makes true and false of its words")
        } else if self.comma.as_ref().is_some_and(|comma| is_number(&comma)) {
            "its fields may be numbers with a decimal comma; `--decimal-comma` reads them so".to_owned()
        } else {
            return None;
        };
        Some(format!("column {name} is text: {option}"))
    }
}

/// The columns of `source`: of `declared` type where one is given, else of that which the file says, or of the
/// narrowest that all their fields fit.
///
/// Of a file that says its types no more is read than these. A CSV file all of whose columns are declared is not read
/// past its first line.
pub(crate) fn columns(
    source: &Source,
    format: Format,
    csv: CsvNotation<'_>,
    declared: &[(String, DataType)],
    notations: &Notations,
) -> Result<Found> {
    let input = source.open()?;
    let consumed_bytes = std::rc::Rc::clone(&input.consumed_bytes);
    let bar = progress::bar(input.total_bytes, "types");
    let mut records = Records::open(input, format, csv)?;
    if let Some(columns) = records.typed_columns() {
        bar.finish_and_clear();
        check_names(records.columns(), declared)?;
        let of_type = |column: Column| match declared_type(declared, &column.name) {
            Some(data_type) => Column { data_type, ..column },
            None => column,
        };
        return Ok(Found {
            columns: columns.into_iter().map(of_type).collect(),
            notes: Vec::new(),
            notations: Vec::new(),
        });
    }
    let mut looks: Vec<Look> = Vec::new();
    let all_declared =
        format == Format::Csv && records.columns().iter().all(|name| declared.iter().any(|(known, _)| known == name));
    let look_at = |looks: &mut Vec<Look>, names: &[String]| {
        let more = names.iter().skip(looks.len());
        looks.extend(more.map(|name| Look::new(name, csv.delimiter, notations)));
    };
    let mut read = 0;
    while !all_declared && records.advance()? {
        look_at(&mut looks, records.columns());
        for (place, look) in looks.iter_mut().enumerate() {
            match records.field(place) {
                // In a column of text the mark is a text, and nothing else would be one for it.
                Field::Absent | Field::Missing | Field::Empty | Field::Mark(_) | Field::Text("") => {}
                Field::Text(text) => look.see(text, || At::list(&[records.at()])),
                Field::Json(json) => look.plain.see_json(json),
                Field::Value(value) => look.plain.see_text(&text_of(&value), || At::list(&[records.at()])),
            }
        }
        read += 1;
        if read % STEP_RECORDS == 0 {
            bar.set_position(consumed_bytes.get());
        }
    }
    bar.finish_and_clear();
    look_at(&mut looks, records.columns());
    let names = records.columns();
    check_names(names, declared)?;
    if let Some(name) = notations.columns().find(|name| !names.iter().any(|known| known == name)) {
        return Err(no_column(name, names));
    }
    let mut found = Found { columns: Vec::new(), notes: records.notes().to_vec(), notations: Vec::new() };
    // A file with points in its numbers has no commas in others.
    let may_have_commas = csv.delimiter == b';' && !looks.iter().any(|look| look.plain.has_fractions());
    let mut with_commas = Vec::new();
    for (name, look) in names.iter().zip(&looks) {
        if let Some(data_type) = declared_type(declared, name) {
            found.columns.push(Column::new(name.clone(), data_type));
            continue;
        }
        let (mut data_type, mut notation) = (look.plain.data_type(), Notation::default());
        match &look.asked {
            Some((asked, evidence)) if !matches!(evidence.data_type(), DataType::Text(_)) => {
                (data_type, notation) = (evidence.data_type(), asked.clone());
            }
            // What the user says of this column alone is more than a guess; a field that does not fit is an error.
            Some((asked, _)) if let Some(named) = notations.type_of(name) => {
                (data_type, notation) = (named, asked.clone());
            }
            _ => match look.of_commas().filter(|_| may_have_commas) {
                Some(numbers) => {
                    (data_type, notation) = (numbers, Notation { decimal_comma: true, ..Notation::default() });
                    with_commas.push(name.as_str());
                }
                None => found.notes.extend(look.note(name)),
            },
        }
        found.columns.push(Column::new(name.clone(), data_type));
        found.notations.push((name.clone(), notation));
    }
    if let [first, ..] = with_commas.as_slice() {
        found.notes.push(format!(
            "numbers with a decimal comma, as 12,5, were read in {}; `--types {first}=text` leaves them unchanged",
            with_commas.join(", ")
        ));
    }
    Ok(found)
}

/// The type that is declared of a column.
fn declared_type(declared: &[(String, DataType)], name: &str) -> Option<DataType> {
    declared.iter().find(|(known, _)| known == name).map(|(_, data_type)| *data_type)
}

/// Fails if a type is declared of a column that the file does not have.
fn check_names(names: &[String], declared: &[(String, DataType)]) -> Result<()> {
    match declared.iter().find(|(name, _)| !names.contains(name)) {
        None => Ok(()),
        Some((name, _)) => Err(no_column(name, names)),
    }
}

fn no_column(name: &str, names: &[String]) -> Failure {
    Failure::new(format!("there is no column {name:?}; the columns are {}", names.join(", ")))
}
