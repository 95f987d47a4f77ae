from justitia_e2e.main import main

main()
