"""SQLAlchemy 2: the ORM, reflection, transactions and DDL of an application, over psycopg, and once over asyncpg."""

import asyncio
import datetime as dt
import decimal
import enum
import os
import threading
import uuid

import sqlalchemy as sa
from sqlalchemy import exc, orm
from sqlalchemy.dialects import postgresql as pg
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import Mapped, mapped_column, relationship

from checks import check, expect, finish


def url(driver):
    names = {
        "username": "PGUSER",
        "password": "PGPASSWORD",
        "host": "PGHOST",
        "port": "PGPORT",
        "database": "PGDATABASE",
    }
    return sa.URL.create(f"postgresql+{driver}", **{name: os.environ[key] for name, key in names.items()})


class Base(orm.DeclarativeBase):
    type_annotation_map = {dt.datetime: sa.TIMESTAMP(timezone=True), dict: pg.JSONB, list[str]: pg.ARRAY(sa.Text)}


class Standing(enum.Enum):
    new = "new"
    good = "good"


follows = sa.Table(
    "follows",
    Base.metadata,
    sa.Column("follower", sa.ForeignKey("users.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("followed", sa.ForeignKey("users.id", ondelete="CASCADE"), primary_key=True),
)


class User(Base):
    __tablename__ = "users"
    __table_args__ = (
        sa.UniqueConstraint("email", name="users_email"),
        sa.CheckConstraint("age > 0", name="users_age"),
        sa.Index("users_lower_name", sa.text("lower(name)")),
        {"comment": "all of them"},
    )
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(sa.String(50), comment="in full")
    email: Mapped[str | None]
    age: Mapped[int | None] = mapped_column(sa.SmallInteger)
    standing: Mapped[Standing] = mapped_column(default=Standing.new)
    joined: Mapped[dt.datetime] = mapped_column(server_default=sa.func.now())
    settings: Mapped[dict] = mapped_column(default=dict)
    tags: Mapped[list[str]] = mapped_column(server_default="{}")
    token: Mapped[uuid.UUID] = mapped_column(server_default=sa.text("gen_random_uuid()"))
    version: Mapped[int] = mapped_column()
    orders: Mapped[list["Order"]] = relationship(
        back_populates="user", cascade="all, delete-orphan", order_by="Order.id"
    )
    following: Mapped[list["User"]] = relationship(
        secondary=follows,
        primaryjoin=lambda: User.id == follows.c.follower,
        secondaryjoin=lambda: User.id == follows.c.followed,
    )
    __mapper_args__ = {"version_id_col": version}


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(sa.BigInteger, sa.Identity(always=True), primary_key=True)
    user_id: Mapped[int] = mapped_column(sa.ForeignKey("users.id", deferrable=True, initially="DEFERRED"), index=True)
    price: Mapped[decimal.Decimal] = mapped_column(sa.Numeric(10, 2))
    taxed: Mapped[decimal.Decimal] = mapped_column(sa.Numeric(10, 2), sa.Computed("price * 1.2", persisted=True))
    due: Mapped[dt.date | None]
    took: Mapped[dt.timedelta | None]
    raw: Mapped[bytes | None]
    user: Mapped[User] = relationship(back_populates="orders")
    __table_args__ = (
        sa.Index("orders_dear", "price", postgresql_where=sa.text("price > 100"), postgresql_include=["due"]),
    )


engine = sa.create_engine(url("psycopg"), pool_size=4)


@check
def tables_are_created_and_found():
    Base.metadata.create_all(engine)
    Base.metadata.create_all(engine)
    found = sa.inspect(engine)
    expect(sorted(found.get_table_names()), ["follows", "orders", "users"])
    expect(found.has_table("users") and not found.has_table("nothing"), True)
    columns = {column["name"]: column for column in found.get_columns("users")}
    expect(
        {name: str(column["type"]) for name, column in columns.items() if name != "standing"},
        {
            "id": "INTEGER",
            "name": "VARCHAR(50)",
            "email": "VARCHAR",
            "age": "SMALLINT",
            "joined": "TIMESTAMP",
            "settings": "JSONB",
            "tags": "ARRAY",
            "token": "UUID",
            "version": "INTEGER",
        },
    )
    expect(columns["standing"]["type"].enums, ["new", "good"])
    expect(
        (columns["joined"]["type"].timezone, columns["joined"]["default"], columns["name"]["comment"]),
        (True, "now()", "in full"),
    )
    expect((columns["id"]["default"], columns["id"]["autoincrement"]), ("nextval('users_id_seq'::regclass)", True))
    expect((columns["email"]["nullable"], columns["name"]["nullable"]), (True, False))
    expect(
        found.get_pk_constraint("follows"),
        {
            "constrained_columns": ["follower", "followed"],
            "name": "follows_pkey",
            "comment": None,
            "dialect_options": {"postgresql_include": []},
        },
    )
    (key,) = found.get_foreign_keys("orders")
    expect(
        (key["name"], key["constrained_columns"], key["referred_table"], key["options"]),
        ("orders_user_id_fkey", ["user_id"], "users", {"deferrable": True, "initially": "DEFERRED"}),
    )
    expect([key["options"] for key in found.get_foreign_keys("follows")], [{"ondelete": "CASCADE"}] * 2)
    expect(
        [(one["name"], one["column_names"]) for one in found.get_unique_constraints("users")],
        [("users_email", ["email"])],
    )
    expect([(one["name"], one["sqltext"]) for one in found.get_check_constraints("users")], [("users_age", "age > 0")])
    expect(found.get_table_comment("users"), {"text": "all of them"})
    indexes = {index["name"]: index for index in found.get_indexes("orders")}
    expect(sorted(indexes), ["ix_orders_user_id", "orders_dear"])
    expect(
        (indexes["orders_dear"]["column_names"], indexes["orders_dear"]["dialect_options"]["postgresql_include"]),
        (["price"], ["due"]),
    )
    assert "price > " in indexes["orders_dear"]["dialect_options"]["postgresql_where"]
    (index,) = [index for index in found.get_indexes("users") if index["name"] == "users_lower_name"]
    assert index["expressions"][0].startswith("lower(name"), index
    orders = {column["name"]: column for column in found.get_columns("orders")}
    expect(orders["id"]["identity"]["always"], True)
    expect(orders["taxed"]["computed"], {"sqltext": "(price * 1.2)", "persisted": True})
    expect(
        (str(orders["took"]["type"]), str(orders["raw"]["type"]), str(orders["price"]["type"])),
        ("INTERVAL", "BYTEA", "NUMERIC(10, 2)"),
    )


@check
def tables_are_reflected():
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE SCHEMA books"))
        connection.execute(sa.text("CREATE TABLE books.pages (id int PRIMARY KEY, owner int REFERENCES public.users)"))
        connection.execute(sa.text("CREATE VIEW grown AS SELECT id, name FROM users WHERE age > 17"))
    metadata = sa.MetaData()
    metadata.reflect(engine, views=True)
    expect(sorted(metadata.tables), ["follows", "grown", "orders", "users"])
    expect([column.name for column in metadata.tables["grown"].columns], ["id", "name"])
    pages = sa.Table("pages", sa.MetaData(), autoload_with=engine, schema="books")
    expect([str(key.column) for key in pages.foreign_keys], ["users.id"])
    found = sa.inspect(engine)
    expect(found.get_view_names(), ["grown"])
    assert "users" in found.get_view_definition("grown")
    expect(found.get_enums()[0]["labels"], ["new", "good"])
    expect(sorted(name for name in found.get_schema_names() if name != "information_schema"), ["books", "public"])
    with engine.begin() as connection:
        connection.execute(sa.text("DROP SCHEMA books CASCADE; DROP VIEW grown"))


@check
def objects_are_kept():
    with orm.Session(engine) as session:
        ann = User(name="Ann", email="ann@example.org", age=30, settings={"a": [1, {"b": None}]}, tags=["x", "y"])
        ann.orders = [
            Order(price=decimal.Decimal(n), due=dt.date(2024, 1, n), took=dt.timedelta(hours=n), raw=bytes([n]))
            for n in range(1, 11)
        ]
        bob = User(name="Bob", standing=Standing.good, following=[ann])
        session.add_all([ann, bob])
        session.commit()
        expect((ann.id, bob.id, len(ann.orders), ann.orders[4].taxed), (1, 2, 10, decimal.Decimal("6.00")))
        expect(
            (bob.tags, type(bob.token), ann.standing, bob.joined.tzinfo is not None),
            ([], uuid.UUID, Standing.new, True),
        )
    with orm.Session(engine) as session:
        ann = session.scalars(
            sa.select(User).where(User.email == "ann@example.org").options(orm.selectinload(User.orders))
        ).one()
        expect(
            [(o.price, o.due, o.took, o.raw) for o in ann.orders][:2],
            [
                (1, dt.date(2024, 1, 1), dt.timedelta(hours=1), b"\1"),
                (2, dt.date(2024, 1, 2), dt.timedelta(hours=2), b"\2"),
            ],
        )
        expect((ann.settings, ann.tags), ({"a": [1, {"b": None}]}, ["x", "y"]))
        joined = session.scalars(sa.select(User).options(orm.joinedload(User.orders)).order_by(User.id)).unique().all()
        expect([(user.name, len(user.orders)) for user in joined], [("Ann", 10), ("Bob", 0)])
        counted = (
            sa.select(User.name, sa.func.count(Order.id), sa.func.coalesce(sa.func.sum(Order.price), 0))
            .join(Order, isouter=True)
            .group_by(User.id)
            .having(sa.func.count() > 0)
            .order_by(User.name)
        )
        expect([tuple(row) for row in session.execute(counted)], [("Ann", 10, 55), ("Bob", 0, 0)])
        ranked = sa.select(
            Order.id, sa.func.rank().over(order_by=Order.price.desc(), partition_by=Order.user_id).label("place")
        ).subquery()
        expect(
            session.scalars(sa.select(ranked.c.id).where(ranked.c.place <= 2).order_by(ranked.c.place)).all(), [10, 9]
        )
        expect(
            session.scalar(
                sa.select(User.name).where(User.settings["a"][1]["b"].astext.is_(None), User.tags.contains(["x"]))
            ),
            "Ann",
        )
        expect(session.scalar(sa.select(User.name).where(User.following.any(User.name == "Ann"))), "Bob")
        expect(
            session.scalar(
                sa.select(sa.func.count()).select_from(Order).where(sa.extract("day", Order.due).between(2, 4))
            ),
            3,
        )
        expect(
            session.scalar(sa.select(User.id).where(User.name.ilike("aN%"), sa.tuple_(User.id, User.age) == (1, 30))), 1
        )
        ann.orders.pop()
        ann.name = "Anna"
        session.commit()
        expect(session.scalar(sa.select(sa.func.count()).select_from(Order)), 9)
        session.delete(ann)
        session.commit()
        expect(
            (session.query(Order).count(), session.query(User).count(), session.execute(sa.select(follows)).all()),
            (0, 1, []),
        )


@check
def statements_in_bulk():
    with engine.begin() as connection:
        inserted = connection.execute(
            sa.insert(User).returning(User.id, User.name, sort_by_parameter_order=True),
            [{"name": f"n{n}", "email": f"{n}@b", "version": 1} for n in range(2500)],
        ).all()
        expect([row.name for row in inserted], [f"n{n}" for n in range(2500)])
        upsert = pg.insert(User).values(name="changed", email="7@b", version=1)
        upsert = upsert.on_conflict_do_update(constraint="users_email", set_={"name": upsert.excluded.name}).returning(
            User.name, User.id
        )
        expect(connection.execute(upsert).one(), ("changed", inserted[7].id))
        expect(
            connection.execute(
                pg.insert(User).values(name="no", email="7@b", version=1).on_conflict_do_nothing().returning(User.id)
            ).all(),
            [],
        )
        expect(
            connection.execute(
                sa.update(User).where(User.email.endswith("@b")).values(age=sa.func.length(User.name))
            ).rowcount,
            2500,
        )
        tree = sa.select(sa.literal(1).label("n")).cte(recursive=True)
        tree = tree.union_all(sa.select(tree.c.n * 2).where(tree.c.n < 100))
        expect(connection.scalar(sa.select(sa.func.array_agg(tree.c.n))), [1, 2, 4, 8, 16, 32, 64, 128])
        gone = sa.delete(User).where(User.email.like("%@b")).returning(User.id).cte()
        expect(connection.scalar(sa.select(sa.func.count()).select_from(gone)), 2500)
    with engine.connect().execution_options(stream_results=True, max_row_buffer=100) as connection:
        rows = connection.execute(sa.select(sa.func.generate_series(1, 5000).label("n")))
        expect(sum(row.n for row in rows), 12502500)


@check
def transactions():
    with orm.Session(engine) as session:
        session.add(User(name="Carl", email="carl@example.org"))
        session.flush()
        with session.begin_nested():
            session.add(User(name="Dora", email="dora@example.org"))
        try:
            with session.begin_nested():
                session.add(User(name="Carl again", email="carl@example.org"))
        except exc.IntegrityError as error:
            expect((error.orig.sqlstate, error.orig.diag.constraint_name), ("23505", "users_email"))
        expect(
            session.scalars(sa.select(User.name).where(User.email.is_not(None)).order_by(User.name)).all(),
            ["Carl", "Dora"],
        )
        session.rollback()
        expect(session.scalars(sa.select(User.name).where(User.email.is_not(None))).all(), [])
    with orm.Session(engine) as session:
        session.add(Order(user_id=99999, price=1))
        session.flush()
        try:
            session.commit()
        except exc.IntegrityError as error:
            expect((error.orig.sqlstate, error.orig.diag.constraint_name), ("23503", "orders_user_id_fkey"))
        else:
            raise AssertionError("a deferred foreign key is not looked at")
    with orm.Session(engine) as one, orm.Session(engine) as two:
        one.add(User(id=77000, name="Eve"))
        one.commit()
        mine, theirs = one.get(User, 77000), two.get(User, 77000)
        mine.age, theirs.age = 1, 2
        one.commit()
        try:
            two.commit()
        except orm.exc.StaleDataError:
            two.rollback()
        else:
            raise AssertionError("a version is not looked at")
        one.get(User, 77000, with_for_update=True)
        try:
            two.get(User, 77000, with_for_update={"nowait": True})
        except exc.OperationalError as error:
            expect(error.orig.sqlstate, "55P03")
        else:
            raise AssertionError("a lock is not looked at")
    serial = engine.execution_options(isolation_level="SERIALIZABLE")
    with serial.connect() as connection:
        expect(connection.get_isolation_level(), "SERIALIZABLE")
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(sa.text("VACUUM users"))


@check
def a_pool_of_threads():
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE tally (id int PRIMARY KEY, n int); INSERT INTO tally VALUES (1, 0)"))

    def work():
        for _ in range(20):
            with engine.begin() as connection:
                connection.execute(sa.text("UPDATE tally SET n = n + :by WHERE id = 1"), {"by": 1})

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with engine.connect() as connection:
        expect(connection.scalar(sa.text("SELECT n FROM tally")), 160)


@check
def with_asyncpg():
    async def run():
        asynchronous = create_async_engine(url("asyncpg"))
        async with async_sessionmaker(asynchronous)() as session:
            session.add(
                User(name="Frieda", settings={"k": 1}, tags=["t"], orders=[Order(price=decimal.Decimal("2.50"))])
            )
            await session.commit()
            row = (
                await session.execute(
                    sa.select(User.settings, User.tags, User.standing, Order.price, Order.taxed)
                    .join(Order)
                    .where(User.name == "Frieda")
                )
            ).one()
            expect(tuple(row), ({"k": 1}, ["t"], Standing.new, decimal.Decimal("2.50"), decimal.Decimal("3.00")))
            streamed = await session.stream_scalars(sa.select(sa.func.generate_series(1, 1000)))
            expect(sum([n async for n in streamed]), 500500)
        async with asynchronous.connect() as connection:
            names = await connection.run_sync(lambda connection: sa.inspect(connection).get_table_names())
            expect("users" in names, True)
        await asynchronous.dispose()

    asyncio.run(run())


@check
def tables_are_dropped():
    with engine.begin() as connection:
        connection.execute(sa.text("DROP TABLE tally"))
    Base.metadata.drop_all(engine)
    found = sa.inspect(engine)
    expect((found.get_table_names(), found.get_enums(), found.get_sequence_names()), ([], [], []))
    engine.dispose()


finish("sqlalchemy")
