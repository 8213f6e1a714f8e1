//! Structs as rows: what `#[derive(Record)]` writes, and tables that take and give structs.
//!
//! | file | what it is |
//! |---|---|
//! | `column_value` | the Rust types of fields |
//! | `fit` | compares a table with the declaration in a struct |
//! | `records` | rows of a table or an index, as structs: at a snapshot and in a transaction |
//! | `table` | a table as it is now, as structs |
//!
//! All of it goes through the interface for rows of values.

pub(crate) mod column_value;
mod fit;
pub(crate) mod records;
pub(crate) mod table;

use quipu::Result;

use crate::encoding::values::IntoValues;
use crate::expression::quoted;
use crate::read::row::{Row, RowView};
use crate::record::column_value::ColumnValue;
use crate::schema::invalid;
use crate::schema::table::TableSchema;
use crate::value::Value;

/// A struct whose values are rows of a table: each field is a column.
///
/// It is derived: `#[derive(Record)]` has the attributes of `#[table(...)]` and `#[column(...)]`. A field of any type
/// that is a [`ColumnValue`] is a column; it may be NULL if it is an `Option`.
///
/// [`Database::ensure_table_of`] creates the table, or checks that the one of that name fits; [`RowSnapshot::table_of`]
/// and [`RowTransaction::table_of`] have it at a snapshot and in a transaction.
///
/// ```
/// use quipu::{Db, Options};
/// use quipu_rows::{Database, Date, Decimal, Ordered, Record, Span};
///
/// #[derive(Record, Clone, Debug, PartialEq)]
/// #[table(name = "carriers")]
/// struct Carrier {
///     #[column(primary_key)]
///     code: String,
///     #[column(unique)]
///     name: String,
/// }
///
/// #[derive(Record, Clone, Debug, PartialEq)]
/// #[table(name = "flights", primary_key(carrier, day desc, number))]
/// #[table(index(name = "late", columns(delay desc), include(origin), predicate = "delay > 15"))]
/// struct Flight {
///     #[column(references(Carrier, on_delete = cascade))]
///     carrier: String,
///     day: Date,
///     number: i32,
///     #[column(index, check = "length(origin) = 3")]
///     origin: String,
///     #[column(type = "decimal(8,2)", default = 0)]
///     fare: Decimal,
///     delay: Option<i16>,
/// }
///
/// # fn main() -> quipu::Result<()> {
/// # let options = Options::without_files();
/// let database = Database::open(&Db::open("/data/air", options)?)?;
/// let carriers = database.ensure_table_of::<Carrier>()?;
/// carriers.insert(&Carrier { code: "LA".into(), name: "Latam".into() })?;
/// let flights = database.ensure_table_of::<Flight>()?;
/// let day = Date::new(2026, 11, 25).expect("a day");
/// database.write(|transaction| {
///     let flights = transaction.table_of::<Flight>()?;
///     for number in 0..100 {
///         let fare = Decimal::new(49_90, 2).expect("two digits after the point");
///         let (carrier, origin, delay) = ("LA".into(), "CUZ".into(), Some(number as i16));
///         flights.insert(&Flight { carrier, day, number, origin, fare, delay })?;
///     }
///     Ok(())
/// })?;
/// let mut flight = flights.get(("LA", day, 7))?.expect("it is there");
/// flight.delay = None;
/// assert!(flights.update(&flight)?);
/// let now = database.snapshot();
/// let late = now.table_of::<Flight>()?.index("late")?;
/// assert_eq!(late.count(Span::all())?, 84);
/// let page = late.page(Span::all(), 20, 3)?;
/// assert_eq!(page.rows.iter().map(|flight| flight.number).collect::<Vec<_>>(), [79, 78, 77]);
/// # Ok(())
/// # }
/// ```
///
/// [`Database::ensure_table_of`]: crate::Database::ensure_table_of
/// [`RowSnapshot::table_of`]: crate::RowSnapshot::table_of
/// [`RowTransaction::table_of`]: crate::RowTransaction::table_of
pub trait Record: Sized + 'static {
    /// The values of a primary key, borrowed: that of its field, or a tuple of several.
    type Key<'k>: IntoValues<'k>
    where
        Self: 'k;

    /// The name of the table.
    const TABLE: &'static str;

    /// The names of the columns, in the order of the fields.
    const COLUMNS: &'static [&'static str];

    /// Whether the table always gives out a number of the primary key, so that no row can bring its own.
    const HAS_OWN_NUMBER_IN_KEY: bool;

    /// The declaration of the table.
    fn schema() -> TableSchema;

    /// The primary key.
    fn key(&self) -> Self::Key<'_>;

    /// A value for each column, to insert; NULL where the table always gives out a number.
    fn values(&self) -> Vec<Value<'_>>;

    /// The columns that an update of the row of this key writes, with their values.
    fn changes(&self) -> Vec<(&'static str, Value<'_>)>;

    /// The struct of a row, or of an entry of an index that has all its columns. Columns are found by their names, so
    /// the row may have more of them, in another order.
    ///
    /// # Errors
    /// [`Invalid`](quipu::ErrorKind::Invalid) if a column is not there, or its value is not of the field's type: the
    /// error names the table, the column and both types. [`Corrupt`](quipu::ErrorKind::Corrupt) if its bytes are no
    /// row.
    fn from_row(row: &RowView<'_>) -> Result<Self>;
}

impl Row {
    /// The row as a struct.
    ///
    /// # Errors
    /// Those of [`Record::from_row`].
    pub fn to<R: Record>(&self) -> Result<R> {
        R::from_row(&self.view()?)
    }
}

/// The value of a column as a field has it. The column is looked for at `place` of the schema first.
pub fn field<T: ColumnValue>(row: &RowView<'_>, place: usize, name: &str) -> Result<T> {
    let is_named = |place: usize| row.schema().columns.get(place).is_some_and(|column| column.name == name);
    let place = if is_named(place) { place } else { row.place(name)? };
    if !row.has(place) {
        let table = &row.schema().table;
        return Err(invalid(format!("table {table}, column {name}: an entry of the index does not have it")));
    }
    T::from_value(row.value(place)?).map_err(|what| {
        let (table, found) = (&row.schema().table, row.schema().columns[place].data_type);
        let what = if what.contains("expected") { what } else { format!("{what}, expected {}", T::TYPE) };
        invalid(format!("table {table}, column {name} of type {found}: {what}"))
    })
}

/// A column as an index names it.
pub fn index_column(name: &str, is_descending: bool) -> String {
    let direction = if is_descending { " desc" } else { "" };
    quoted(name) + direction
}
