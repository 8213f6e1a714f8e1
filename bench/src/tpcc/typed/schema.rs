//! The schemas of the nine tables, and their rows as values and back.

use std::borrow::Cow;

use quipu::ErrorKind;
use quipu_rows::{Column, DataType, Decimal, RowView, TableSchema, Timestamp, Value};

use crate::store::Result;
use crate::tpcc::population::Take;
use crate::tpcc::records::{
    Address, Customer, District, History, Item, NewOrder, Order, OrderLine, Record, Stock, Table, Warehouse,
};

/// The primary key and the columns of a table, as names and types; columns are NOT NULL unless a `?` follows.
pub(super) fn shape(table: Table) -> (&'static [&'static str], &'static [(&'static str, &'static str)]) {
    match table {
        Table::Item => (
            &["i_id"],
            &[("i_id", "i32"), ("i_im_id", "i32"), ("i_name", "text"), ("i_price", "decimal(5,2)"), ("i_data", "text")],
        ),
        Table::Warehouse => (
            &["w_id"],
            &[
                ("w_id", "i32"),
                ("w_name", "text"),
                ("w_street_1", "text"),
                ("w_street_2", "text"),
                ("w_city", "text"),
                ("w_state", "text"),
                ("w_zip", "text"),
                ("w_tax", "decimal(4,4)"),
                ("w_ytd", "decimal(12,2)"),
            ],
        ),
        Table::District => (
            &["d_w_id", "d_id"],
            &[
                ("d_w_id", "i32"),
                ("d_id", "i32"),
                ("d_name", "text"),
                ("d_street_1", "text"),
                ("d_street_2", "text"),
                ("d_city", "text"),
                ("d_state", "text"),
                ("d_zip", "text"),
                ("d_tax", "decimal(4,4)"),
                ("d_ytd", "decimal(12,2)"),
                ("d_next_o_id", "i32"),
            ],
        ),
        Table::Stock => (
            &["s_w_id", "s_i_id"],
            &[
                ("s_w_id", "i32"),
                ("s_i_id", "i32"),
                ("s_quantity", "i32"),
                ("s_dist_01", "text"),
                ("s_dist_02", "text"),
                ("s_dist_03", "text"),
                ("s_dist_04", "text"),
                ("s_dist_05", "text"),
                ("s_dist_06", "text"),
                ("s_dist_07", "text"),
                ("s_dist_08", "text"),
                ("s_dist_09", "text"),
                ("s_dist_10", "text"),
                ("s_ytd", "i64"),
                ("s_order_cnt", "i32"),
                ("s_remote_cnt", "i32"),
                ("s_data", "text"),
            ],
        ),
        Table::Customer => (
            &["c_w_id", "c_d_id", "c_id"],
            &[
                ("c_w_id", "i32"),
                ("c_d_id", "i32"),
                ("c_id", "i32"),
                ("c_first", "text"),
                ("c_middle", "text"),
                ("c_last", "text"),
                ("c_street_1", "text"),
                ("c_street_2", "text"),
                ("c_city", "text"),
                ("c_state", "text"),
                ("c_zip", "text"),
                ("c_phone", "text"),
                ("c_since", "timestamp"),
                ("c_credit", "text"),
                ("c_credit_lim", "decimal(12,2)"),
                ("c_discount", "decimal(4,4)"),
                ("c_balance", "decimal(12,2)"),
                ("c_ytd_payment", "decimal(12,2)"),
                ("c_payment_cnt", "i32"),
                ("c_delivery_cnt", "i32"),
                ("c_data", "text"),
            ],
        ),
        Table::History => (
            &[],
            &[
                ("h_c_id", "i32"),
                ("h_c_d_id", "i32"),
                ("h_c_w_id", "i32"),
                ("h_d_id", "i32"),
                ("h_w_id", "i32"),
                ("h_date", "timestamp"),
                ("h_amount", "decimal(6,2)"),
                ("h_data", "text"),
            ],
        ),
        Table::Order => (
            &["o_w_id", "o_d_id", "o_id"],
            &[
                ("o_w_id", "i32"),
                ("o_d_id", "i32"),
                ("o_id", "i32"),
                ("o_c_id", "i32"),
                ("o_entry_d", "timestamp"),
                ("o_carrier_id?", "i32"),
                ("o_ol_cnt", "i32"),
                ("o_all_local", "bool"),
            ],
        ),
        Table::NewOrder => {
            (&["no_w_id", "no_d_id", "no_o_id"], &[("no_w_id", "i32"), ("no_d_id", "i32"), ("no_o_id", "i32")])
        }
        Table::OrderLine => (
            &["ol_w_id", "ol_d_id", "ol_o_id", "ol_number"],
            &[
                ("ol_w_id", "i32"),
                ("ol_d_id", "i32"),
                ("ol_o_id", "i32"),
                ("ol_number", "i32"),
                ("ol_i_id", "i32"),
                ("ol_supply_w_id", "i32"),
                ("ol_delivery_d?", "timestamp"),
                ("ol_quantity", "i32"),
                ("ol_amount", "decimal(6,2)"),
                ("ol_dist_info", "text"),
            ],
        ),
    }
}

pub(super) fn schema(table: Table) -> TableSchema {
    let (key, columns) = shape(table);
    let mut schema = TableSchema::new(table.name());
    for (name, data_type) in columns {
        let data_type = DataType::parse(data_type).expect("a type of the list above");
        schema = schema.column(match name.strip_suffix('?') {
            Some(name) => Column::new(name, data_type),
            None => Column::new(*name, data_type).not_null(),
        });
    }
    if key.is_empty() { schema } else { schema.key(key.iter().copied()) }
}

/// Places of columns in the lists above.
pub(super) mod place {
    pub(crate) mod warehouse {
        pub(crate) const NAME: usize = 1;
        pub(crate) const TAX: usize = 7;
        pub(crate) const YTD: usize = 8;
    }
    pub(crate) mod district {
        pub(crate) const NAME: usize = 2;
        pub(crate) const TAX: usize = 8;
        pub(crate) const YTD: usize = 9;
        pub(crate) const NEXT_ORDER: usize = 10;
    }
    pub(crate) mod stock {
        pub(crate) const QUANTITY: usize = 2;
        pub(crate) const DISTRICT_INFO: usize = 3;
        pub(crate) const YTD: usize = 13;
        pub(crate) const ORDERS: usize = 14;
        pub(crate) const REMOTE: usize = 15;
        pub(crate) const DATA: usize = 16;
    }
    pub(crate) mod customer {
        pub(crate) const ID: usize = 2;
        pub(crate) const FIRST: usize = 3;
        pub(crate) const MIDDLE: usize = 4;
        pub(crate) const LAST: usize = 5;
        pub(crate) const ADDRESS: usize = 6;
        pub(crate) const PHONE: usize = 11;
        pub(crate) const SINCE: usize = 12;
        pub(crate) const CREDIT: usize = 13;
        pub(crate) const CREDIT_LIMIT: usize = 14;
        pub(crate) const DISCOUNT: usize = 15;
        pub(crate) const BALANCE: usize = 16;
        pub(crate) const YTD_PAYMENT: usize = 17;
        pub(crate) const PAYMENTS: usize = 18;
        pub(crate) const DELIVERIES: usize = 19;
        pub(crate) const DATA: usize = 20;
    }
    pub(crate) mod order {
        pub(crate) const ID: usize = 2;
        pub(crate) const CUSTOMER: usize = 3;
        pub(crate) const ENTERED: usize = 4;
        pub(crate) const CARRIER: usize = 5;
        pub(crate) const LINES: usize = 6;
        pub(crate) const IS_LOCAL: usize = 7;
    }
    pub(crate) mod line {
        pub(crate) const NUMBER: usize = 3;
        pub(crate) const ITEM: usize = 4;
        pub(crate) const SUPPLY: usize = 5;
        pub(crate) const DELIVERED: usize = 6;
        pub(crate) const QUANTITY: usize = 7;
        pub(crate) const AMOUNT: usize = 8;
        pub(crate) const DISTRICT_INFO: usize = 9;
    }
    pub(crate) mod item {
        pub(crate) const NAME: usize = 2;
        pub(crate) const PRICE: usize = 3;
        pub(crate) const DATA: usize = 4;
    }
}

/// Money: cents with two digits after the point.
pub(super) fn money(cents: i64) -> Value<'static> {
    Value::Decimal(Decimal::new(i128::from(cents), 2).expect("64 bits have fewer than 38 digits"))
}

/// A rate: ten-thousandths.
pub(super) fn rate(units: i64) -> Value<'static> {
    Value::Decimal(Decimal::new(i128::from(units), 4).expect("64 bits have fewer than 38 digits"))
}

pub(super) fn time(microseconds: i64) -> Value<'static> {
    Value::Timestamp(Timestamp::from_microseconds(microseconds).expect("a moment of this century"))
}

/// The number in a column: an integer, the units of a decimal, the microseconds of a moment; none of NULL.
pub(super) fn maybe_number(row: &RowView<'_>, place: usize) -> quipu::Result<Option<i64>> {
    Ok(match row.value(place)? {
        Value::Null => None,
        Value::Int(number) => Some(number as i64),
        Value::Decimal(number) => Some(number.units() as i64),
        Value::Timestamp(moment) => Some(moment.microseconds()),
        Value::Bool(is_true) => Some(i64::from(is_true)),
        other => return Err(quipu::Error::new(ErrorKind::Invalid, format!("column {place} holds {other}"))),
    })
}

pub(super) fn number(row: &RowView<'_>, place: usize) -> quipu::Result<i64> {
    let none = || quipu::Error::new(ErrorKind::Invalid, format!("column {place} is NULL"));
    maybe_number(row, place)?.ok_or_else(none)
}

pub(super) fn integer(row: &RowView<'_>, place: usize) -> quipu::Result<i32> {
    Ok(number(row, place)? as i32)
}

/// Lends the text in a column.
pub(super) fn text<'r>(row: &RowView<'r>, place: usize) -> quipu::Result<Cow<'r, str>> {
    match row.value(place)? {
        Value::Text(text) => Ok(text),
        other => Err(quipu::Error::new(ErrorKind::Invalid, format!("column {place} holds {other}"))),
    }
}

/// The values of a row, in the order of the columns.
pub(super) fn values<'r>(record: &'r Record<'_>) -> Vec<Value<'r>> {
    match record {
        Record::Item(Item { id, image, name, price, data }) => {
            vec![(*id).into(), (*image).into(), (*name).into(), money(*price), (*data).into()]
        }
        Record::Warehouse(Warehouse { id, name, address, tax, ytd }) => {
            let mut values: Vec<Value<'r>> = vec![(*id).into(), (*name).into()];
            values.extend(address.parts().map(Value::from));
            values.extend([rate(*tax), money(*ytd)]);
            values
        }
        Record::District(District { warehouse, id, name, address, tax, ytd, next_order }) => {
            let mut values: Vec<Value<'r>> = vec![(*warehouse).into(), (*id).into(), (*name).into()];
            values.extend(address.parts().map(Value::from));
            values.extend([rate(*tax), money(*ytd), (*next_order).into()]);
            values
        }
        Record::Stock(Stock { warehouse, item, quantity, district_info, ytd, orders, remote, data }) => {
            let mut values: Vec<Value<'r>> = vec![(*warehouse).into(), (*item).into(), (*quantity).into()];
            values.extend(district_info.map(Value::from));
            values.extend([(*ytd).into(), (*orders).into(), (*remote).into(), (*data).into()]);
            values
        }
        Record::Customer(customer) => {
            let Customer { warehouse, district, id, first, middle, last, address, phone, .. } = customer;
            let mut values: Vec<Value<'r>> = vec![(*warehouse).into(), (*district).into(), (*id).into()];
            values.extend([*first, *middle, *last].map(Value::from));
            values.extend(address.parts().map(Value::from));
            values.extend([
                (*phone).into(),
                time(customer.since),
                customer.credit.into(),
                money(customer.credit_limit),
                rate(customer.discount),
                money(customer.balance),
                money(customer.ytd_payment),
                customer.payments.into(),
                customer.deliveries.into(),
                customer.data.into(),
            ]);
            values
        }
        Record::History(history) => vec![
            history.customer.into(),
            history.customer_district.into(),
            history.customer_warehouse.into(),
            history.district.into(),
            history.warehouse.into(),
            time(history.date),
            money(history.amount),
            history.data.into(),
        ],
        Record::NewOrder(NewOrder { warehouse, district, order }) => {
            vec![(*warehouse).into(), (*district).into(), (*order).into()]
        }
        Record::Order(Order { warehouse, district, id, customer, entered, carrier, lines, is_local }) => vec![
            (*warehouse).into(),
            (*district).into(),
            (*id).into(),
            (*customer).into(),
            time(*entered),
            (*carrier).into(),
            (*lines).into(),
            Value::Bool(*is_local),
        ],
        Record::OrderLine(line) => vec![
            line.warehouse.into(),
            line.district.into(),
            line.order.into(),
            line.number.into(),
            line.item.into(),
            line.supply_warehouse.into(),
            line.delivered.map_or(Value::Null, time),
            line.quantity.into(),
            money(line.amount),
            line.district_info.into(),
        ],
    }
}

/// Lends a row as its record.
pub(super) fn see(table: Table, row: &RowView<'_>, take: Take<'_>) -> Result<()> {
    let mut texts: Vec<Cow<'_, str>> = Vec::new();
    let places = 0..shape(table).1.len();
    for place in places {
        texts.push(match row.value(place)? {
            Value::Text(text) => text,
            _ => "".into(),
        });
    }
    let address = |at: usize| Address::of(std::array::from_fn(|part| &*texts[at + part]));
    take(&match table {
        Table::Item => Record::Item(Item {
            id: integer(row, 0)?,
            image: integer(row, 1)?,
            name: &texts[2],
            price: number(row, 3)?,
            data: &texts[4],
        }),
        Table::Warehouse => Record::Warehouse(Warehouse {
            id: integer(row, 0)?,
            name: &texts[place::warehouse::NAME],
            address: address(2),
            tax: number(row, place::warehouse::TAX)?,
            ytd: number(row, place::warehouse::YTD)?,
        }),
        Table::District => Record::District(District {
            warehouse: integer(row, 0)?,
            id: integer(row, 1)?,
            name: &texts[place::district::NAME],
            address: address(3),
            tax: number(row, place::district::TAX)?,
            ytd: number(row, place::district::YTD)?,
            next_order: integer(row, place::district::NEXT_ORDER)?,
        }),
        Table::Stock => Record::Stock(Stock {
            warehouse: integer(row, 0)?,
            item: integer(row, 1)?,
            quantity: integer(row, place::stock::QUANTITY)?,
            district_info: std::array::from_fn(|district| &*texts[place::stock::DISTRICT_INFO + district]),
            ytd: number(row, place::stock::YTD)?,
            orders: integer(row, place::stock::ORDERS)?,
            remote: integer(row, place::stock::REMOTE)?,
            data: &texts[place::stock::DATA],
        }),
        Table::Customer => Record::Customer(Customer {
            warehouse: integer(row, 0)?,
            district: integer(row, 1)?,
            id: integer(row, place::customer::ID)?,
            first: &texts[place::customer::FIRST],
            middle: &texts[place::customer::MIDDLE],
            last: &texts[place::customer::LAST],
            address: address(place::customer::ADDRESS),
            phone: &texts[place::customer::PHONE],
            since: number(row, place::customer::SINCE)?,
            credit: &texts[place::customer::CREDIT],
            credit_limit: number(row, place::customer::CREDIT_LIMIT)?,
            discount: number(row, place::customer::DISCOUNT)?,
            balance: number(row, place::customer::BALANCE)?,
            ytd_payment: number(row, place::customer::YTD_PAYMENT)?,
            payments: integer(row, place::customer::PAYMENTS)?,
            deliveries: integer(row, place::customer::DELIVERIES)?,
            data: &texts[place::customer::DATA],
        }),
        Table::History => Record::History(History {
            customer: integer(row, 0)?,
            customer_district: integer(row, 1)?,
            customer_warehouse: integer(row, 2)?,
            district: integer(row, 3)?,
            warehouse: integer(row, 4)?,
            date: number(row, 5)?,
            amount: number(row, 6)?,
            data: &texts[7],
        }),
        Table::Order => Record::Order(Order {
            warehouse: integer(row, 0)?,
            district: integer(row, 1)?,
            id: integer(row, place::order::ID)?,
            customer: integer(row, place::order::CUSTOMER)?,
            entered: number(row, place::order::ENTERED)?,
            carrier: maybe_number(row, place::order::CARRIER)?.map(|carrier| carrier as i32),
            lines: integer(row, place::order::LINES)?,
            is_local: number(row, place::order::IS_LOCAL)? != 0,
        }),
        Table::NewOrder => Record::NewOrder(NewOrder {
            warehouse: integer(row, 0)?,
            district: integer(row, 1)?,
            order: integer(row, 2)?,
        }),
        Table::OrderLine => Record::OrderLine(OrderLine {
            warehouse: integer(row, 0)?,
            district: integer(row, 1)?,
            order: integer(row, 2)?,
            number: integer(row, place::line::NUMBER)?,
            item: integer(row, place::line::ITEM)?,
            supply_warehouse: integer(row, place::line::SUPPLY)?,
            delivered: maybe_number(row, place::line::DELIVERED)?,
            quantity: integer(row, place::line::QUANTITY)?,
            amount: number(row, place::line::AMOUNT)?,
            district_info: &texts[place::line::DISTRICT_INFO],
        }),
    })
}
