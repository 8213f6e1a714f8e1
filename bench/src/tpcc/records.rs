//! The rows of the nine tables (clause 1.3). Money is in cents, rates are in ten-thousandths, times in microseconds.
//!
//! What is in the primary key is left out of the encoded row, since stores of keys and values have it in the key.

use serde::{Deserialize, Serialize};

/// A table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Table {
    Item,
    Warehouse,
    District,
    Stock,
    Customer,
    History,
    Order,
    NewOrder,
    OrderLine,
}

impl Table {
    /// All of them, in the order in which they are loaded.
    pub(crate) const ALL: [Table; 9] = [
        Table::Item,
        Table::Warehouse,
        Table::District,
        Table::Stock,
        Table::Customer,
        Table::History,
        Table::Order,
        Table::NewOrder,
        Table::OrderLine,
    ];

    /// As in schemas.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Table::Item => "item",
            Table::Warehouse => "warehouse",
            Table::District => "district",
            Table::Stock => "stock",
            Table::Customer => "customer",
            Table::History => "history",
            Table::Order => "orders",
            Table::NewOrder => "new_order",
            Table::OrderLine => "order_line",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Address<'a> {
    pub(crate) street_1: &'a str,
    pub(crate) street_2: &'a str,
    pub(crate) city: &'a str,
    pub(crate) state: &'a str,
    pub(crate) zip: &'a str,
}

impl<'a> Address<'a> {
    /// The parts, in the order of the columns.
    pub(crate) fn parts(&self) -> [&'a str; 5] {
        [self.street_1, self.street_2, self.city, self.state, self.zip]
    }

    /// The address of these parts.
    pub(crate) fn of([street_1, street_2, city, state, zip]: [&'a str; 5]) -> Address<'a> {
        Address { street_1, street_2, city, state, zip }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Warehouse<'a> {
    #[serde(skip)]
    pub(crate) id: i32,
    pub(crate) name: &'a str,
    #[serde(borrow)]
    pub(crate) address: Address<'a>,
    pub(crate) tax: i64,
    pub(crate) ytd: i64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct District<'a> {
    #[serde(skip)]
    pub(crate) warehouse: i32,
    #[serde(skip)]
    pub(crate) id: i32,
    pub(crate) name: &'a str,
    #[serde(borrow)]
    pub(crate) address: Address<'a>,
    pub(crate) tax: i64,
    pub(crate) ytd: i64,
    pub(crate) next_order: i32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Customer<'a> {
    #[serde(skip)]
    pub(crate) warehouse: i32,
    #[serde(skip)]
    pub(crate) district: i32,
    #[serde(skip)]
    pub(crate) id: i32,
    pub(crate) first: &'a str,
    pub(crate) middle: &'a str,
    pub(crate) last: &'a str,
    #[serde(borrow)]
    pub(crate) address: Address<'a>,
    pub(crate) phone: &'a str,
    pub(crate) since: i64,
    pub(crate) credit: &'a str,
    pub(crate) credit_limit: i64,
    pub(crate) discount: i64,
    pub(crate) balance: i64,
    pub(crate) ytd_payment: i64,
    pub(crate) payments: i32,
    pub(crate) deliveries: i32,
    pub(crate) data: &'a str,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct History<'a> {
    pub(crate) customer: i32,
    pub(crate) customer_district: i32,
    pub(crate) customer_warehouse: i32,
    pub(crate) district: i32,
    pub(crate) warehouse: i32,
    pub(crate) date: i64,
    pub(crate) amount: i64,
    pub(crate) data: &'a str,
}

/// An order that is not delivered yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NewOrder {
    pub(crate) warehouse: i32,
    pub(crate) district: i32,
    pub(crate) order: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Order {
    #[serde(skip)]
    pub(crate) warehouse: i32,
    #[serde(skip)]
    pub(crate) district: i32,
    #[serde(skip)]
    pub(crate) id: i32,
    pub(crate) customer: i32,
    pub(crate) entered: i64,
    pub(crate) carrier: Option<i32>,
    pub(crate) lines: i32,
    pub(crate) is_local: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OrderLine<'a> {
    #[serde(skip)]
    pub(crate) warehouse: i32,
    #[serde(skip)]
    pub(crate) district: i32,
    #[serde(skip)]
    pub(crate) order: i32,
    #[serde(skip)]
    pub(crate) number: i32,
    pub(crate) item: i32,
    pub(crate) supply_warehouse: i32,
    pub(crate) delivered: Option<i64>,
    pub(crate) quantity: i32,
    pub(crate) amount: i64,
    pub(crate) district_info: &'a str,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Item<'a> {
    #[serde(skip)]
    pub(crate) id: i32,
    pub(crate) image: i32,
    pub(crate) name: &'a str,
    pub(crate) price: i64,
    pub(crate) data: &'a str,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stock<'a> {
    #[serde(skip)]
    pub(crate) warehouse: i32,
    #[serde(skip)]
    pub(crate) item: i32,
    pub(crate) quantity: i32,
    #[serde(borrow)]
    pub(crate) district_info: [&'a str; 10],
    pub(crate) ytd: i64,
    pub(crate) orders: i32,
    pub(crate) remote: i32,
    pub(crate) data: &'a str,
}

/// A row of any table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Record<'a> {
    Item(Item<'a>),
    Warehouse(Warehouse<'a>),
    District(District<'a>),
    Stock(Stock<'a>),
    Customer(Customer<'a>),
    History(History<'a>),
    Order(Order),
    NewOrder(NewOrder),
    OrderLine(OrderLine<'a>),
}
